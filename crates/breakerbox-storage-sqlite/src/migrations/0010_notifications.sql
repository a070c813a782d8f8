-- Notices are called notifications, and stored JSON has the names of the API:
--   notifications: `circuit.circuit_by` (was `by`), `circuit.destination` (was `place`), `disabled_reason` (was `because`),
--                  `disables.failing_ms` (was `gives_up.silence_ms`), `cause.counts` (was `why.counted`)
--   tenants:       `response_rules` with an `action` (was `rulings` with a `delivery`)
-- Sealed columns keep their names, because only the master key opens them: the reader knows both names. JSON that can't be read
-- stays as it is.

ALTER TABLE notices RENAME TO notifications;
DROP INDEX notices_of_tenant;
CREATE INDEX notifications_of_tenant ON notifications (tenant, id);

ALTER TABLE notice_sends RENAME TO notification_sends;
ALTER TABLE notification_sends RENAME COLUMN notice TO notification;
DROP INDEX notices_waiting;
CREATE INDEX notifications_waiting ON notification_sends (target, due_at, notification) WHERE state = 0;

ALTER TABLE notice_targets RENAME TO notification_targets;

UPDATE notification_sends SET message = 'ntf_' || substr(message, 5) WHERE message GLOB 'ntc_*';

UPDATE notifications SET news = json_remove(
    json_set(
        news,
        '$.circuit.circuit_by', json_extract(news, '$.circuit.by'),
        '$.circuit.destination', json_extract(news, '$.circuit.place')
    ),
    '$.circuit.by', '$.circuit.place'
)
WHERE CASE WHEN json_valid(news) THEN json_type(news, '$.circuit.by') IS NOT NULL ELSE 0 END;

UPDATE notifications SET news = json_remove(
    json_set(news, '$.disabled_reason', json_extract(news, '$.because')),
    '$.because'
)
WHERE CASE WHEN json_valid(news) THEN json_type(news, '$.because') IS NOT NULL ELSE 0 END;

UPDATE notifications SET news = json_remove(
    json_set(news, '$.disables', json(
        CASE json_type(news, '$.gives_up') WHEN 'object' THEN json_object(
            'trips', json_extract(news, '$.gives_up.trips'),
            'failing_ms', json_extract(news, '$.gives_up.silence_ms')
        ) ELSE 'null' END
    )),
    '$.gives_up'
)
WHERE CASE WHEN json_valid(news) THEN json_type(news, '$.gives_up') IS NOT NULL ELSE 0 END;

UPDATE notifications SET news = json_remove(
    json_set(news, '$.cause', json(
        CASE json_type(news, '$.why') WHEN 'object' THEN json_remove(
            json_set(json_extract(news, '$.why'), '$.counts', json(coalesce(json_extract(news, '$.why.counted'), 'null'))),
            '$.counted'
        ) ELSE 'null' END
    )),
    '$.why'
)
WHERE CASE WHEN json_valid(news) THEN json_type(news, '$.why') IS NOT NULL ELSE 0 END;

UPDATE tenants SET settings = json_remove(
    json_set(settings, '$.response_rules', json((
        SELECT json_group_object(rule.key, json(
            CASE WHEN json_type(rule.value, '$.delivery') IS NULL THEN rule.value
            ELSE json_remove(json_set(rule.value, '$.action',
                CASE json_extract(rule.value, '$.delivery')
                    WHEN 'delivered' THEN 'succeed' WHEN 'retried' THEN 'retry'
                    WHEN 'failed' THEN 'fail' WHEN 'gone' THEN 'disable'
                END
            ), '$.delivery') END
        )) FROM json_each(settings, '$.rulings') AS rule
    ))),
    '$.rulings'
)
WHERE CASE WHEN json_valid(settings) THEN json_type(settings, '$.rulings') IS NOT NULL ELSE 0 END;

UPDATE tenants SET settings = json_remove(
    json_set(settings, '$.reminders.response_rules', json((
        SELECT json_group_object(rule.key, json(
            CASE WHEN json_type(rule.value, '$.delivery') IS NULL THEN rule.value
            ELSE json_remove(json_set(rule.value, '$.action',
                CASE json_extract(rule.value, '$.delivery')
                    WHEN 'delivered' THEN 'succeed' WHEN 'retried' THEN 'retry'
                    WHEN 'failed' THEN 'fail' WHEN 'gone' THEN 'disable'
                END
            ), '$.delivery') END
        )) FROM json_each(settings, '$.reminders.rulings') AS rule
    ))),
    '$.reminders.rulings'
)
WHERE CASE WHEN json_valid(settings) THEN json_type(settings, '$.reminders.rulings') IS NOT NULL ELSE 0 END;
