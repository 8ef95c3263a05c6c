// Reads the evidence of a scenario: the tables, their history, the journal.

import Foundation
import TestSupport

/// The record of what the tables went through, which they themselves do not keep.
enum History {
    /// Writes down each change of a unit's lease, state or counts; renewals of a lease alone are left out.
    ///
    /// A lease that is over as it is given, by which the lost are booked, is none.
    static let triggers = """
        CREATE TABLE chaos_history (
            seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
            notification bigint, batch int, is_new boolean, state text, epoch int, owner uuid, is_leased boolean,
            accepted bigint, rejected bigint, unknown bigint, done_through bigint);
        CREATE FUNCTION chaos_notification() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO chaos_history (notification, batch, is_new, state, epoch, owner, is_leased, done_through)
            VALUES (NEW.id, 0, TG_OP = 'INSERT', NEW.status, NEW.epoch, NEW.owner,
                    coalesce(NEW.lease_until > now(), false), 0);
            RETURN NULL;
        END $$;
        CREATE FUNCTION chaos_batch() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO chaos_history (notification, batch, is_new, state, epoch, owner, is_leased, accepted, rejected,
                                       unknown, done_through)
            VALUES (NEW.notification_id, NEW.batch_no, TG_OP = 'INSERT', NEW.state, NEW.epoch, NEW.owner,
                    coalesce(NEW.lease_until > now(), false), NEW.accepted_count, NEW.rejected_count, NEW.unknown_count,
                    NEW.done_through);
            RETURN NULL;
        END $$;
        CREATE TRIGGER chaos_inserted AFTER INSERT ON scheduled_notifications
            FOR EACH ROW EXECUTE FUNCTION chaos_notification();
        CREATE TRIGGER chaos_updated AFTER UPDATE ON scheduled_notifications FOR EACH ROW
            WHEN ((OLD.status, OLD.epoch, OLD.owner, OLD.lease_until IS NULL)
                  IS DISTINCT FROM (NEW.status, NEW.epoch, NEW.owner, NEW.lease_until IS NULL))
            EXECUTE FUNCTION chaos_notification();
        CREATE TRIGGER chaos_inserted AFTER INSERT ON notification_batches
            FOR EACH ROW EXECUTE FUNCTION chaos_batch();
        CREATE TRIGGER chaos_updated AFTER UPDATE ON notification_batches FOR EACH ROW
            WHEN ((OLD.state, OLD.epoch, OLD.owner, OLD.lease_until IS NULL, OLD.accepted_count, OLD.rejected_count,
                   OLD.unknown_count, OLD.done_through)
                  IS DISTINCT FROM (NEW.state, NEW.epoch, NEW.owner, NEW.lease_until IS NULL, NEW.accepted_count,
                   NEW.rejected_count, NEW.unknown_count, NEW.done_through))
            EXECUTE FUNCTION chaos_batch();
        """
}

extension Evidence {
    /// Reads all that the system has left behind; what was done to it is added by the caller.
    init(reading rig: Rig) throws {
        notifications = try rig.rows(
            """
            SELECT id, user_id, user_ids, device_tokens, broadcast, environment, delivery, payload, status,
                   extract(epoch FROM scheduled_at)::float8 AS scheduled_at, extract(epoch FROM sent_at)::float8 AS sent_at,
                   extract(epoch FROM finished_at)::float8 AS finished_at, device_count AS device, accepted_count AS accepted,
                   rejected_count AS rejected, unknown_count AS unknown, walking, upper_id, cursor_id, given_up
            FROM scheduled_notifications ORDER BY id
            """)
        devices = try rig.rows(
            """
            SELECT id, user_id, device_token AS token, environment, is_active, deactivation_reason AS reason,
                   extract(epoch FROM registered_at)::float8 AS registered_at,
                   extract(epoch FROM deactivated_at)::float8 AS deactivated_at
            FROM devices ORDER BY id
            """)
        batches = try rig.rows(
            """
            SELECT notification_id AS notification, batch_no AS number, state, after_id, through_id, device_ids,
                   device_count AS device, accepted_count AS accepted, rejected_count AS rejected, unknown_count AS unknown
            FROM notification_batches ORDER BY 1, 2
            """)
        failures = try rig.rows(
            """
            SELECT notification_id AS notification, device_id AS device, http_status AS status, reason, is_final,
                   extract(epoch FROM occurred_at)::float8 AS at
            FROM delivery_failures ORDER BY occurred_at
            """)
        history = try rig.rows(
            """
            SELECT extract(epoch FROM at)::float8 AS at, notification, batch, is_new, state, epoch, owner, is_leased,
                   coalesce(accepted, 0) AS accepted, coalesce(rejected, 0) AS rejected, coalesce(unknown, 0) AS unknown,
                   done_through
            FROM chaos_history ORDER BY seq
            """)
        requests = try rig.simulator.journal().requests.map { Request($0) }
    }
}

extension Evidence.Request {
    /// A request of the journal, its times brought to the calendar: the simulator's own calendar may be wrong.
    init(_ seen: SimulatedRequest) {
        push = seen.apnsId.flatMap { Push(apnsID: $0) }
        apnsID = seen.apnsId ?? "none"
        token = seen.token ?? ""
        environment = seen.environment
        body = seen.body ?? ""
        arrived = Clock.calendar(monotonic: seen.received)
        ended = Clock.calendar(monotonic: seen.mono)
        // REFUSED_STREAM says that it was not looked at, however it came about.
        outcome = seen.code == 7 ? "refused" : seen.outcome ?? "held"
        status = seen.status
        reason = seen.reason
        hasBegunWell = status == nil && Self.halfAnswers.contains { token.hasPrefix($0) }
    }

    private static let halfAnswers = [DeviceTokens.magic("04cc"), DeviceTokens.magic("05bb")].map { $0.prefix(12) }
}

extension Push {
    /// Reads the two numbers out of an apns-id, by the layout in `sql/README.md`; nil for an id of other origin.
    init?(apnsID: String) {
        let digits = Array(apnsID.utf8.filter { $0 != UInt8(ascii: "-") })
        guard digits.count == 32, digits[12] == UInt8(ascii: "8"),
            let sign = ["8": 1, "a": -1][String(UnicodeScalar(digits[16]))],
            let notification = Int(String(decoding: digits[..<12] + digits[13..<16], as: UTF8.self), radix: 16),
            let device = Int(String(decoding: digits[17...], as: UTF8.self), radix: 16)
        else { return nil }
        self.init(notification: notification, device: sign * device)
    }
}

/// This machine's clocks.
enum Clock {
    /// Seconds since 1970.
    static var now: Double { seconds(CLOCK_REALTIME) }

    /// The time of the calendar at which CLOCK_MONOTONIC showed so many nanoseconds.
    static func calendar(monotonic nanoseconds: UInt64) -> Double { Double(nanoseconds) / 1e9 + offset }

    private static let offset = seconds(CLOCK_REALTIME) - seconds(CLOCK_MONOTONIC)

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

extension Rig {
    /// The rows of a query as values; column names become names of properties.
    func rows<Row: Decodable>(_ sql: String) throws -> [Row] {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let text = try column("SELECT row_to_json(x) FROM (\(sql)) x").joined(separator: ",")
        return try decoder.decode([Row].self, from: Data("[\(text)]".utf8))
    }
}
