-- The guard over dead tokens: BadDeviceToken and DeviceTokenNotForTopic only propose that a device be retired, because a wrong key,
-- environment or topic yields them for every device there is. What was proposed is judged by everything that Apple answered in the
-- same app, environment and topic meanwhile, by all workers together.

CREATE TABLE token_windows (
    app             text NOT NULL,
    environment     text NOT NULL,
    topic           text NOT NULL,
    opened_at       timestamptz NOT NULL DEFAULT now(),
    closes_at       timestamptz NOT NULL DEFAULT now() + interval '30 s',
    accepted_count  bigint NOT NULL DEFAULT 0,
    answered_count  bigint NOT NULL DEFAULT 0,
    proposed_count  bigint NOT NULL DEFAULT 0,
    approved_id     bigint,
    tripped_at      timestamptz,
    reason          text,
    PRIMARY KEY (app, environment, topic)
);

CREATE TABLE proposed_deactivations (
    app                text NOT NULL,
    environment        text NOT NULL,
    topic              text NOT NULL,
    id                 bigint GENERATED ALWAYS AS IDENTITY,
    notification_id    bigint NOT NULL,
    batch_no           integer NOT NULL,
    device_id          bigint NOT NULL,
    device_key         bigint,
    reason             text NOT NULL,
    registered_before  timestamptz NOT NULL,
    proposed_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app, environment, topic, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- "Has this notification something that is not judged yet?", asked before it is finished; and what goes when it is deleted.
CREATE INDEX proposed_deactivations_notification ON proposed_deactivations (notification_id, app, environment, topic);

-- "Has this device been proposed already?": a window counts devices. Ten pushes to one dead token are no storm.
CREATE INDEX proposed_deactivations_device ON proposed_deactivations (device_key, app, environment, topic);

-- How many probes in a row were accepted, and how many it takes.
ALTER TABLE app_pauses ADD COLUMN passed integer NOT NULL DEFAULT 0, ADD COLUMN needed integer NOT NULL DEFAULT 1;

-- A process takes its leases under several names, one for each lane.
ALTER TABLE pgpush_workers ADD COLUMN owners uuid[];

-- Refused for what it is, not for whom it went to: what is left of it is not sent.
ALTER TABLE scheduled_notifications ADD COLUMN given_up boolean NOT NULL DEFAULT false;

-- What is old enough to be deleted, oldest first.
CREATE INDEX scheduled_notifications_finished ON scheduled_notifications (finished_at) WHERE finished_at IS NOT NULL;
