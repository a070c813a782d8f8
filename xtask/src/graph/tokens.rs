//! Splits Rust source into words and symbols, without comments, strings and characters.

/// A word, `::`, or one other symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    pub(crate) text: &'t str,
    pub(crate) line: usize,
}

pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let (is_token, length) = match skipped(rest, first) {
            Some(length) => (false, length),
            None if is_of_word(first) => (true, rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())),
            None if rest.starts_with("::") => (true, 2),
            None => (true, first.len_utf8()),
        };
        let (token, after) = rest.split_at(length);
        if is_token {
            found.push(Token { text: token, line });
        }
        line += token.matches('\n').count();
        rest = after;
    }
    found
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// If the text starts with a space, a comment, a string, a character or a lifetime, none of which is a token,
/// returns its length.
fn skipped(rest: &str, first: char) -> Option<usize> {
    if first.is_whitespace() {
        return Some(first.len_utf8());
    }
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if first == '\'' {
        return Some(character_or_lifetime(rest));
    }
    string(rest)
}

/// Returns the length of a comment, which may contain nested comments.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut signs = rest.char_indices().peekable();
    while let Some((_, sign)) = signs.next() {
        match (sign, signs.peek()) {
            ('/', Some((_, '*'))) => depth += 1,
            ('*', Some((_, '/'))) => depth -= 1,
            _ => continue,
        }
        signs.next();
        if depth == 0 {
            return signs.peek().map_or(rest.len(), |(at, _)| *at);
        }
    }
    rest.len()
}

/// Returns the length of a character such as `'x'` or `'\n'`. For a lifetime or a label, returns the length of
/// the `'`.
fn character_or_lifetime(rest: &str) -> usize {
    let mut signs = rest.char_indices().skip(1);
    match (signs.next(), signs.next()) {
        // An escaped character may itself be the quote.
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            rest[after..].find('\'').map_or(rest.len(), |quote| after + quote + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns the length of the string literal of any kind at the start of the text, or `None` if there is none.
fn string(rest: &str) -> Option<usize> {
    // The quote or `#` comes after at most two letters.
    let prefix = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'#'))?;
    match &rest[..prefix] {
        "" | "b" | "c" if rest[prefix..].starts_with('"') => {
            let mut is_escaped = false;
            for (at, sign) in rest.char_indices().skip(prefix + 1) {
                match sign {
                    '"' if !is_escaped => return Some(at + 1),
                    '\\' => is_escaped = !is_escaped,
                    _ => is_escaped = false,
                }
            }
            Some(rest.len())
        }
        "r" | "br" | "cr" => {
            let hashes = rest[prefix..].find(|c| c != '#')?;
            let start = prefix + hashes;
            // `r#name` is a word, not a string.
            rest[start..].starts_with('"').then_some(())?;
            let end = format!("\"{}", "#".repeat(hashes));
            Some(rest[start + 1..].find(&end).map_or(rest.len(), |at| start + 1 + at + end.len()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn only_code_is_left() {
        let table: [(&str, &[&str]); 12] = [
            ("a::b_1", &["a", "::", "b_1"]),
            ("a // b\nc", &["a", "c"]),
            ("a /* b /* c */ d */ e", &["a", "e"]),
            (r#"a "b \" c \\" d"#, &["a", "d"]),
            ("a r#\"b \" c\"# d", &["a", "d"]),
            ("a b\"c\" d", &["a", "d"]),
            ("r#type::x", &["r", "#", "type", "::", "x"]),
            ("'x' a", &["a"]),
            (r"'\'' a '\u{1f}' b", &["a", "b"]),
            ("<'a> b", &["<", "a", ">", "b"]),
            ("'\"' a", &["a"]),
            ("/* a", &[]),
        ];
        for (source, expected) in table {
            assert_eq!(texts(source), expected, "{source}");
        }
    }

    #[test]
    fn lines_are_counted_over_everything_that_is_left_out() {
        let found = tokens("a\n// b\n/* c\n */ \"d\n\"\ne");
        assert_eq!(found, [Token { text: "a", line: 1 }, Token { text: "e", line: 6 }]);
    }
}
