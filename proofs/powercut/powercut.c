/* A power cut, for one program: loaded into it with LD_PRELOAD, it lets nothing of a folder be durable that was not synced.
 *
 * Every write to a file below POWERCUT_FOLDER goes through, and is remembered with what was there before until the file is
 * synced. So is every name that is made, changed or removed, until its folder is synced. After POWERCUT_AFTER operations the
 * power is cut: what was not synced is undone, a part of it chosen by POWERCUT_SEED is done again, and the program is gone
 * in the middle of what it was doing. What is left is what a disk might have after a power cut.
 *
 * POWERCUT_MODE says what may be left of unsynced writes: "all" are lost; "some" are lost, in any order; "torn" the same for
 * each sector of 512 bytes; "late" the last ones are lost, as on a disk that keeps the order. Names are lost last first: file
 * systems keep a journal of them. POWERCUT_SYNC_US is how long a sync takes at most; it really takes that long and does
 * nothing else, since only this cut is to be survived.
 *
 * It never touches anything outside the folder, and no file that ends in "-shm": SQLite does not expect those to survive.
 * A file of the folder that is mapped for writing could change unseen, so that ends the program with a message. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECTOR 512
#define CUT_STATUS 86

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A write, or a change of length if fresh is NULL. */
struct op {
    off_t at;
    size_t length, had;
    unsigned char *old, *fresh;
    off_t old_size, new_size;
};

struct file {
    struct file *next;
    dev_t dev;
    ino_t ino;
    char path[PATH_MAX];
    /* To read old contents: the program's own may be for writing only. Never closed: that would end the program's locks. */
    int reader;
    struct op *ops;
    size_t count, room;
};

enum name_kind { MADE, REMOVED, MOVED };

/* A change of a name; kept is where a removed file went. */
struct name {
    enum name_kind kind;
    dev_t dev;
    ino_t ino;
    char path[PATH_MAX], to[PATH_MAX], kept[PATH_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;
static struct name *names;
static size_t name_count, name_room;
static char folder[PATH_MAX];
static size_t folder_length;
static uint64_t seed, operations, cut_after, syncs, kept_number;
static long sync_us;
static char mode = 'a';
static volatile sig_atomic_t asked;

static void *must(void *memory) {
    if (!memory) abort();
    return memory;
}

static uint64_t draw(void) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void on_signal(int number) {
    (void)number;
    asked = 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("POWERCUT_FOLDER"), *text;
    if (!where || !realpath(where, folder)) return;
    folder_length = strlen(folder);
    if ((text = getenv("POWERCUT_SEED"))) seed = strtoull(text, NULL, 10);
    if ((text = getenv("POWERCUT_AFTER"))) cut_after = strtoull(text, NULL, 10);
    if ((text = getenv("POWERCUT_SYNC_US"))) sync_us = strtol(text, NULL, 10);
    if ((text = getenv("POWERCUT_MODE"))) mode = text[0];
    signal(SIGUSR2, on_signal);
}

/* Where a path is, without following what the last part of it names. */
static int place(int dir, const char *path, char *out) {
    char joined[PATH_MAX], parent[PATH_MAX];
    if (!folder_length) return 0;
    if (path[0] == '/' || dir == AT_FDCWD) {
        if (strlen(path) >= sizeof joined) return 0;
        strcpy(joined, path);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, joined, sizeof joined - 1);
        if (length < 0 || length + strlen(path) + 2 >= sizeof joined) return 0;
        joined[length] = '/';
        strcpy(joined + length + 1, path);
    }
    char *slash = strrchr(joined, '/');
    const char *last = slash ? slash + 1 : joined;
    if (slash == joined) return 0;
    if (slash) *slash = 0;
    if (!realpath(slash ? joined : ".", parent)) return 0;
    if (strncmp(parent, folder, folder_length) || (parent[folder_length] && parent[folder_length] != '/')) return 0;
    size_t length = strlen(last);
    if (length > 4 && !strcmp(last + length - 4, "-shm")) return 0;
    return snprintf(out, PATH_MAX, "%s/%s", parent, last) < PATH_MAX;
}

static struct file *find(const struct stat *what) {
    for (struct file *file = files; file; file = file->next)
        if (file->dev == what->st_dev && file->ino == what->st_ino) return file;
    return NULL;
}

/* The file behind a descriptor, if it is one of ours. */
static struct file *ours(int fd, struct stat *what) {
    if (!folder_length || fstat(fd, what) || !S_ISREG(what->st_mode)) return NULL;
    return find(what);
}

static void forget_ops(struct file *file, size_t count) {
    for (size_t n = 0; n < count; n++) {
        free(file->ops[n].old);
        free(file->ops[n].fresh);
    }
    memmove(file->ops, file->ops + count, (file->count - count) * sizeof *file->ops);
    file->count -= count;
}

static void write_fully(int fd, const unsigned char *bytes, size_t length, off_t at) {
    REAL(pwrite64);
    while (length) {
        ssize_t done = real(fd, bytes, length, at);
        if (done <= 0) abort();
        bytes += done, at += done, length -= done;
    }
}

static void set_length(int fd, off_t length) {
    REAL(ftruncate64);
    if (real(fd, length)) abort();
}

static void undo(int fd, const struct op *op) {
    if (op->had) write_fully(fd, op->old, op->had, op->at);
    set_length(fd, op->old_size);
}

/* Does an operation again, or those of its sectors that reached the disk. Says whether something of it was lost. */
static int redo(int fd, const struct op *op, int torn) {
    int lost = 0;
    if (!op->fresh) {
        set_length(fd, op->new_size);
        return 0;
    }
    for (size_t done = 0; done < op->length;) {
        size_t piece = SECTOR - (op->at + done) % SECTOR;
        if (piece > op->length - done) piece = op->length - done;
        if (!torn || draw() % 2) write_fully(fd, op->fresh + done, piece, op->at + done);
        else lost = 1;
        done += piece;
    }
    return lost;
}

static uint64_t cut_file(struct file *file) {
    REAL(open64);
    uint64_t lost = 0, share = 1 + draw() % 9;
    size_t in_order = mode == 'l' && file->count ? draw() % file->count : 0;
    int fd = real(file->path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return file->count; /* Its name is gone, and all of it with it. */
    for (size_t n = file->count; n-- > 0;) undo(fd, &file->ops[n]);
    for (size_t n = 0; n < file->count; n++) {
        int keep = mode == 'l' ? n < in_order : mode != 'a' && draw() % 10 < share;
        lost += keep ? redo(fd, &file->ops[n], mode == 't') : 1;
    }
    return lost;
}

/* Nobody else goes on: whoever wants to write waits for the lock, which is not given back. */
static void cut(void) {
    REAL(rename);
    __typeof__(&unlink) remove_name = (__typeof__(&unlink))dlsym(RTLD_NEXT, "unlink");
    uint64_t unsynced = 0, lost = 0;
    size_t stay = mode == 'a' ? 0 : name_count ? draw() % (name_count + 1) : 0;
    for (struct file *file = files; file; file = file->next) {
        unsynced += file->count;
        lost += cut_file(file);
    }
    for (size_t n = name_count; n-- > 0;) {
        struct name *name = &names[n];
        if (n < stay) {
            if (name->kept[0]) remove_name(name->kept);
            continue;
        }
        if (name->kind == MADE) remove_name(name->path);
        if (name->kind == MOVED) real(name->to, name->path);
        if (name->kept[0]) real(name->kept, name->kind == MOVED ? name->to : name->path);
    }
    char said[256];
    int length = snprintf(said, sizeof said,
        "powercut: after %llu operations and %llu syncs; unsynced %llu writes, %zu names; lost %llu writes, %zu names\n",
        (unsigned long long)operations, (unsigned long long)syncs, (unsigned long long)unsynced, name_count,
        (unsigned long long)lost, name_count - stay);
    if (write(2, said, length) < 0) { /* Nobody listens. */ }
    _exit(CUT_STATUS);
}

static void count_operation(void) {
    operations++;
    if (asked || (cut_after && operations >= cut_after)) cut();
}

static struct op *new_op(struct file *file) {
    if (file->count == file->room) {
        file->room = file->room ? 2 * file->room : 64;
        file->ops = must(realloc(file->ops, file->room * sizeof *file->ops));
    }
    struct op *op = &file->ops[file->count++];
    memset(op, 0, sizeof *op);
    return op;
}

static void remember_old(struct file *file, struct op *op, size_t length) {
    op->old = must(malloc(length ? length : 1));
    while (op->had < length) {
        ssize_t got = pread64(file->reader, op->old + op->had, length - op->had, op->at + op->had);
        if (got <= 0) break;
        op->had += got;
    }
}

static void note_write(struct file *file, const struct stat *before, const void *bytes, size_t length, off_t at) {
    struct op *op = new_op(file);
    op->at = at, op->length = length, op->old_size = before->st_size;
    remember_old(file, op, length);
    op->fresh = must(malloc(length ? length : 1));
    memcpy(op->fresh, bytes, length);
}

static void note_length(struct file *file, off_t before, off_t after) {
    struct op *op = new_op(file);
    op->at = after, op->old_size = before, op->new_size = after;
    if (after < before) remember_old(file, op, before - after);
}

static struct name *new_name(enum name_kind kind, const char *path) {
    char parent[PATH_MAX];
    struct stat what;
    strcpy(parent, path);
    *strrchr(parent, '/') = 0;
    if (stat(parent, &what)) return NULL;
    if (name_count == name_room) {
        name_room = name_room ? 2 * name_room : 16;
        names = must(realloc(names, name_room * sizeof *names));
    }
    struct name *name = &names[name_count++];
    memset(name, 0, sizeof *name);
    name->kind = kind, name->dev = what.st_dev, name->ino = what.st_ino;
    strcpy(name->path, path);
    return name;
}

/* Keeps what a name stands for, in case its removal is lost. */
static void keep(struct name *name, const char *path) {
    if (snprintf(name->kept, PATH_MAX, "%s/.powercut-%d-%llu", folder, getpid(), (unsigned long long)kept_number++)
        >= PATH_MAX || link(path, name->kept))
        name->kept[0] = 0;
    struct stat what;
    struct file *file;
    if (name->kept[0] && !stat(path, &what) && (file = find(&what))) strcpy(file->path, name->kept);
}

/* A pause of at most so long, without the lock. */
static void take_time(void) {
    if (sync_us <= 0) return;
    pthread_mutex_lock(&lock);
    long us = draw() % sync_us;
    pthread_mutex_unlock(&lock);
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

/* What was done before a sync began is durable when it ends. */
static int synced(int fd) {
    struct stat what;
    pthread_mutex_lock(&lock);
    if (!folder_length || fstat(fd, &what)) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    struct file *file = S_ISREG(what.st_mode) ? find(&what) : NULL;
    int is_folder = S_ISDIR(what.st_mode);
    if (!file && !is_folder) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    count_operation();
    size_t before = file ? file->count : name_count;
    pthread_mutex_unlock(&lock);
    take_time();
    pthread_mutex_lock(&lock);
    syncs++;
    if (file) {
        /* Another sync of the same file may have ended meanwhile. */
        forget_ops(file, before < file->count ? before : file->count);
    } else {
        __typeof__(&unlink) remove_name = (__typeof__(&unlink))dlsym(RTLD_NEXT, "unlink");
        size_t left = 0;
        for (size_t n = 0; n < name_count; n++) {
            if (n < before && names[n].dev == what.st_dev && names[n].ino == what.st_ino) {
                if (names[n].kept[0]) remove_name(names[n].kept);
            } else
                names[left++] = names[n];
        }
        name_count = left;
    }
    pthread_mutex_unlock(&lock);
    return 1;
}

int fsync(int fd) {
    REAL(fsync);
    return synced(fd) ? 0 : real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return synced(fd) ? 0 : real(fd);
}

static int opened(int dir, const char *path, int flags, mode_t rights) {
    REAL(openat64);
    char where[PATH_MAX];
    int fd;
    if (!(flags & (O_WRONLY | O_RDWR)) || !place(dir, path, where)) return real(dir, path, flags, rights);
    pthread_mutex_lock(&lock);
    struct stat before, after;
    int was_there = !stat(where, &before);
    /* Its old contents must be read before they are gone. */
    fd = real(dir, path, flags & ~O_TRUNC, rights);
    if (fd >= 0 && !fstat(fd, &after) && S_ISREG(after.st_mode)) {
        struct file *file = find(&after);
        if (!file) {
            file = must(calloc(1, sizeof *file));
            file->dev = after.st_dev, file->ino = after.st_ino, file->next = files;
            strcpy(file->path, where);
            file->reader = real(dir, path, O_RDONLY | O_CLOEXEC);
            if (file->reader < 0) abort();
            files = file;
        }
        if (!was_there) new_name(MADE, where);
        if (flags & O_TRUNC && after.st_size) {
            note_length(file, after.st_size, 0);
            set_length(fd, 0);
        }
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

static mode_t rights_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t rights = rights_of(flags, rest); \
        va_end(rest); \
        return opened(AT_FDCWD, path, flags, rights); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t rights = rights_of(flags, rest); \
        va_end(rest); \
        return opened(dir, path, flags, rights); \
    }
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t rights) {
    return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, rights);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    REAL(pwrite64);
    struct stat what;
    pthread_mutex_lock(&lock);
    struct file *file = ours(fd, &what);
    if (file) note_write(file, &what, bytes, length, at);
    ssize_t done = real(fd, bytes, length, at);
    if (file) {
        if (done < 0) file->count--; /* A full disk: nothing was written. */
        else file->ops[file->count - 1].length = done;
        count_operation();
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    return pwrite64(fd, bytes, length, at);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    REAL(write);
    struct stat what;
    if (!folder_length || fd <= 2) return real(fd, bytes, length);
    pthread_mutex_lock(&lock);
    struct file *file = ours(fd, &what);
    if (file) {
        off_t at = fcntl(fd, F_GETFL) & O_APPEND ? what.st_size : lseek(fd, 0, SEEK_CUR);
        note_write(file, &what, bytes, length, at);
    }
    ssize_t done = real(fd, bytes, length);
    if (file) {
        if (done < 0) file->count--;
        else file->ops[file->count - 1].length = done;
        count_operation();
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    struct stat what;
    if (!ours(fd, &what)) return real(fd, parts, count);
    ssize_t done = 0;
    for (int n = 0; n < count; n++) {
        ssize_t one = write(fd, parts[n].iov_base, parts[n].iov_len);
        if (one < 0) return done ? done : one;
        done += one;
        if ((size_t)one < parts[n].iov_len) break;
    }
    return done;
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    struct stat what;
    pthread_mutex_lock(&lock);
    struct file *file = ours(fd, &what);
    if (file) note_length(file, what.st_size, length);
    int result = real(fd, length);
    if (file) {
        if (result) file->count--;
        count_operation();
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t length) {
    return ftruncate64(fd, length);
}

static int removed(const char *path, const char *where) {
    REAL(unlink);
    pthread_mutex_lock(&lock);
    struct name *name = new_name(REMOVED, where);
    if (name) keep(name, where);
    int result = real(path);
    if (result && name) name_count--;
    count_operation();
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path) {
    REAL(unlink);
    char where[PATH_MAX];
    return place(AT_FDCWD, path, where) ? removed(path, where) : real(path);
}

int unlinkat(int dir, const char *path, int flags) {
    REAL(unlinkat);
    char where[PATH_MAX];
    return !flags && place(dir, path, where) ? removed(where, where) : real(dir, path, flags);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    char old[PATH_MAX], fresh[PATH_MAX];
    struct stat what;
    if (!place(AT_FDCWD, from, old) || !place(AT_FDCWD, to, fresh)) return real(from, to);
    pthread_mutex_lock(&lock);
    struct name *name = new_name(MOVED, old);
    struct file *file = stat(old, &what) ? NULL : find(&what);
    if (name) {
        strcpy(name->to, fresh);
        keep(name, fresh);
    }
    int result = real(from, to);
    if (!result && file) strcpy(file->path, fresh);
    if (result && name) name_count--;
    count_operation();
    pthread_mutex_unlock(&lock);
    return result;
}

static void *mapped(void *(*real)(void *, size_t, int, int, int, off64_t), void *at, size_t length, int rights,
                    int flags, int fd, off64_t offset) {
    struct stat what;
    if (fd >= 0 && rights & PROT_WRITE && flags & MAP_SHARED && ours(fd, &what)) {
        static const char said[] = "powercut: a file of the folder is mapped for writing, and its changes can't be seen\n";
        if (write(2, said, sizeof said - 1) < 0) { /* Nobody listens. */ }
        abort();
    }
    return real(at, length, rights, flags, fd, offset);
}

void *mmap64(void *at, size_t length, int rights, int flags, int fd, off64_t offset) {
    REAL(mmap64);
    return mapped(real, at, length, rights, flags, fd, offset);
}

void *mmap(void *at, size_t length, int rights, int flags, int fd, off_t offset) {
    REAL(mmap64);
    return mapped(real, at, length, rights, flags, fd, offset);
}

/* A copy inside the kernel would be unseen; whoever tries it falls back to reading and writing. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
    REAL(copy_file_range);
    struct stat what;
    if (ours(to, &what)) {
        errno = EXDEV;
        return -1;
    }
    return real(from, from_at, to, to_at, length, flags);
}
