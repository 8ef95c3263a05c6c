-- What the worker writes: slices of big notifications, the ledger of answers that were not 200, pauses, and who is at work.

CREATE TABLE notification_batches (
    notification_id   bigint NOT NULL,
    batch_no          integer NOT NULL,
    app               text NOT NULL,
    state             text NOT NULL,
    attempts          integer NOT NULL DEFAULT 1,
    not_before        timestamptz,

    -- the devices: either a range of devices.id (after_id, through_id], or an array of numbers
    after_id          bigint,
    through_id        bigint,
    device_ids        bigint[],
    done_through      bigint NOT NULL DEFAULT 0,

    owner             uuid,
    epoch             integer NOT NULL DEFAULT 0,
    lease_until       timestamptz,
    environment       text,
    topic             text,

    device_count      integer NOT NULL DEFAULT 0,
    accepted_count    integer NOT NULL DEFAULT 0,
    rejected_count    integer NOT NULL DEFAULT 0,
    unknown_count     integer NOT NULL DEFAULT 0,
    last_accepted_at  timestamptz,
    error             text,
    created_at        timestamptz NOT NULL DEFAULT now(),
    claimed_at        timestamptz,
    finished_at       timestamptz,

    PRIMARY KEY (notification_id, batch_no),
    CONSTRAINT notification_batches_state_check
        CHECK (state IN ('ready', 'leased', 'parked', 'done', 'abandoned'))
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- No foreign key: its check would lock the parent's row at every claim and settle. A trigger deletes with the parent.

-- Open batches by what a worker looks for: ready ones by time, leased ones to rescue, parked ones to free.
CREATE INDEX notification_batches_open ON notification_batches (app, state, not_before)
    WHERE state IN ('ready', 'leased', 'parked');
-- "Is anything of this notification still open?", asked after every settle, whatever the number of finished batches.
CREATE INDEX notification_batches_open_of ON notification_batches (notification_id)
    WHERE state IN ('ready', 'leased', 'parked');

CREATE TABLE delivery_failures (
    occurred_at      timestamptz NOT NULL DEFAULT now(),
    notification_id  bigint NOT NULL,
    batch_no         integer NOT NULL,
    app              text NOT NULL,
    environment      text,
    device_id        bigint NOT NULL,
    device_token     text,
    http_status      integer,
    reason           text NOT NULL,
    apns_id          uuid,
    attempt          integer NOT NULL,
    is_final         boolean NOT NULL
) PARTITION BY RANGE (occurred_at);
CREATE INDEX delivery_failures_notification ON delivery_failures (notification_id, device_id);
-- Rows of a day that has no partition yet land here; nothing is refused for want of one.
CREATE TABLE delivery_failures_default PARTITION OF delivery_failures DEFAULT;

CREATE TABLE app_pauses (
    app             text NOT NULL,
    environment     text,
    topic           text,
    reason          text NOT NULL,
    automatic       boolean NOT NULL DEFAULT false,
    paused_at       timestamptz NOT NULL DEFAULT now(),
    paused_by       text NOT NULL DEFAULT session_user,
    next_probe_at   timestamptz,
    probes          integer NOT NULL DEFAULT 0,
    CONSTRAINT app_pauses_scope_key UNIQUE NULLS NOT DISTINCT (app, environment, topic)
);

CREATE TABLE pgpush_workers (
    owner           uuid PRIMARY KEY,
    host            text NOT NULL,
    pid             integer NOT NULL,
    version         text NOT NULL,
    apps            text[] NOT NULL,
    lanes           integer NOT NULL DEFAULT 1,
    in_flight       integer NOT NULL DEFAULT 0,
    accepted_count  bigint NOT NULL DEFAULT 0,
    rejected_count  bigint NOT NULL DEFAULT 0,
    started_at      timestamptz NOT NULL DEFAULT now(),
    last_seen_at    timestamptz NOT NULL DEFAULT now()
);

-- The row in which every claim hands out a piece of work.
CREATE TYPE pgpush_unit AS (
    notification_id   bigint,
    batch_no          integer,
    epoch             integer,
    attempt           integer,
    app               text,
    environment       text,
    push_type         text,
    priority          smallint,
    topic             text,
    collapse_id       text,
    expires_at        timestamptz,
    store_if_offline  boolean,
    at_most_once      boolean,
    channel_id        text,
    payload           text,
    device_count      integer,
    scheduled_at      timestamptz
);
