// Devices: tokens in one form, owners, environments, times.

import TestSupport
import Testing

@Suite struct DeviceTests {
    let database: TestDatabase

    init() throws { database = try .make() }

    private func insert(_ token: String, user: String = "a") throws -> String? {
        try database.refusal("INSERT INTO devices (user_id, device_token) VALUES ('\(user)', E'\(token)')")
    }

    @Test("F16 one physical token is one device, whatever its spelling")
    func spellings() throws {
        let hex = String(repeating: "Ab12", count: 16)
        #expect(try insert(hex.uppercased()) == nil)
        #expect(try insert(hex.lowercased()) == "23505")
        #expect(try insert(hex) == "23505")
        #expect(try database.psql("SELECT device_token FROM devices") == [[hex.lowercased()]])

        let id = try database.notify("user_id", "'a'")
        try database.notify("broadcast", "true")
        try database.notify("device_tokens", "ARRAY['\(hex)', '\(hex.lowercased())', '\(hex.uppercased())']")
        let worker = QueueWorker(database)
        let singles = try worker.claim()
        #expect(try worker.expand(singles).map(\.tokens) == [[hex.lowercased()], [hex.lowercased()]])
        #expect(try worker.expand(worker.claimBroadcast()).map(\.tokens) == [[hex.lowercased()]])
        // A 410 for the token in a list of tokens retires the registered device.
        var outcome = Outcome(unit: singles[1], rejected: 1)
        outcome.retired = [.init(device: -1, before: "now() + interval '1 s'")]
        #expect(try worker.settle(outcome) == "applied")
        #expect(try database.value("SELECT deactivation_reason FROM devices") == "Unregistered")
        #expect(try worker.accept([singles[0]]) == ["applied"])
        #expect(try database.status(id) == "skipped")
    }

    @Test("F17 what is not a token is refused one by one, with the reason")
    func malformedTokens() throws {
        for bad in [
            "{length = 32, bytes = 0x0011223344556677 ... 8899aabb}", "", "null", String(repeating: "a", count: 63),
            "xyz0xyz0xyz0", "ab/../cd", "ab12\\r\\ncd34", "🦊🦊🦊🦊", "ab12", String(repeating: "a", count: 402),
            "ab12\\tcd34", "vab12cd34", "ab12cd34v",
        ] {
            #expect(try insert(bad) == "PN015", "\(bad)")
            #expect(
                try database.refusal(
                    "INSERT INTO scheduled_notifications (device_tokens, title) VALUES (ARRAY['ab12cd34', E'\(bad)'], 'x')"
                )
                    == "PN015", "\(bad)")
        }
        #expect(try insert("<00112233 44556677 8899AABB CCDDEEFF>") == nil)
        #expect(try insert(" 99 88 77 66 \\n\\x0b") == nil)
        #expect(
            try database.psql("SELECT device_token FROM devices ORDER BY id") == [
                ["00112233445566778899aabbccddeeff"], ["99887766"],
            ])
        let failure = #expect(throws: SQLFailure.self) {
            try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('a', repeat('ab', 100) || 'z')")
        }
        #expect(failure?.column == "device_token")
        #expect(failure?.message.contains("abababababab…") == true)
        #expect(failure?.message.contains("abababababababab") == false, "a token does not belong into a message")
    }

    @Test("F18 the latest registration decides whose device it is")
    func registrationMoves() throws {
        let token = String(repeating: "12ab", count: 16)
        let first = try database.number(
            "SELECT register_device(user_id => 'a', device_token => '\(token)', locale => 'de')")
        try database.psql("UPDATE devices SET registered_at = now() - interval '1 day', is_active = false")
        let second = try database.number(
            "SELECT register_device(user_id => 'b', device_token => '<\(token.uppercased())>')")
        #expect(first == second)
        let row = try database.psql(
            "SELECT user_id, is_active, deactivated_at, locale, registered_at > now() - interval '1 minute' FROM devices"
        )
        #expect(row == [["b", "t", nil, "de", "t"]])

        try database.notify("user_id", "'a'")
        try database.notify("user_id", "'b'")
        try database.notify("user_ids", "'{a,b}'")
        let worker = QueueWorker(database)
        #expect(try worker.expand(worker.claim()).map { [$0.unit, $0.ids.count] } == [[2, 1], [3, 1]])
    }

    @Test func aKnownTokenSaysWhatToDo() throws {
        #expect(try insert("ab12cd34") == nil)
        let failure = #expect(throws: SQLFailure.self) {
            try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('b', 'AB12CD34')")
        }
        #expect(failure?.sqlState == "23505")
        #expect(failure?.hint?.contains("register_device") == true)
        // Upserts of an ORM go on working, plain or in a function.
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token) VALUES ('b', 'AB12CD34')
            ON CONFLICT (app, device_token) DO UPDATE SET user_id = EXCLUDED.user_id;
            DO $$ BEGIN
                INSERT INTO devices (user_id, device_token) VALUES ('c', 'ab12cd34') ON CONFLICT DO NOTHING;
            END $$;
            CREATE TABLE log AS SELECT register_device('d', 'ab12cd34');
            INSERT INTO log SELECT register_device('e', 'ab12cd34');
            """)
        #expect(try database.psql("SELECT user_id FROM devices") == [["e"]])
    }

    @Test func nullsMeanTheDefault() throws {
        try database.psql(
            """
            INSERT INTO devices (id, app, user_id, device_token, environment, platform, is_active, registered_at, last_active_at,
                                 created_at, updated_at)
            VALUES (NULL, NULL, 'a', 'ab12cd34', NULL, NULL, NULL, NULL, NULL, NULL, NULL)
            """)
        #expect(
            try database.psql("SELECT id, app, environment, platform, is_active FROM devices")
                == [["1", "default", "production", "ios", "t"]])
        try database.psql("ALTER TABLE devices ALTER environment SET DEFAULT 'sandbox'")
        try database.psql("INSERT INTO devices (user_id, device_token, environment) VALUES ('b', 'ab12cd35', NULL)")
        try database.psql("SELECT register_device('c', 'ab12cd36')")
        #expect(
            try database.psql("SELECT environment FROM devices ORDER BY id") == [
                ["production"], ["sandbox"], ["sandbox"],
            ])
    }

    @Test func environmentsAndTimeZones() throws {
        func insert(_ column: String, _ value: String) throws -> String? {
            try database.refusal(
                """
                INSERT INTO devices (user_id, device_token, \(column))
                VALUES ('a', encode(sha256(random()::text::bytea), 'hex'), '\(value)')
                """)
        }
        #expect(try insert("environment", "Development") == nil)
        #expect(try database.psql("SELECT environment FROM devices") == [["sandbox"]])
        #expect(try insert("environment", "staging") == "PN018")
        for zone in ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires", "Etc/GMT+3", "Japan", "EST5EDT"] {
            #expect(try insert("time_zone", zone) == nil, "\(zone)")
        }
        for zone in ["Europe/Entenhausen", "FOO3", "", "PST", "Foo/Bar5", "+01:00", "Europe/Berlin'' OR 1"] {
            #expect(try insert("time_zone", zone) == "PN019", "\(zone)")
        }
        for time in ["infinity", "-infinity"] {
            #expect(try insert("registered_at", time) == "PN012")
            #expect(try insert("last_active_at", time) == "PN012")
        }
        #expect(try insert("app", "") == "PN030")
        #expect(try database.refusal("INSERT INTO devices (user_id, device_token) VALUES ('', 'ab12cd34')") == "PN030")
    }

    @Test func activityIsKeptInStep() throws {
        try database.psql("INSERT INTO devices (user_id, device_token) VALUES ('a', 'ab12cd34')")
        try database.psql("UPDATE devices SET is_active = false")
        #expect(
            try database.psql("SELECT deactivated_at IS NOT NULL, deactivation_reason FROM devices") == [
                ["t", "set inactive by postgres"]
            ])
        try database.psql("UPDATE devices SET is_active = true")
        #expect(try database.psql("SELECT deactivated_at, deactivation_reason FROM devices") == [[nil, nil]])
        #expect(try database.value("SELECT unregister_device('b', 'ab12cd34')") == "f")
        #expect(try database.value("SELECT unregister_device('a', 'AB12 CD34')") == "t")
        #expect(try database.value("SELECT deactivation_reason FROM devices") == "unregistered")
        #expect(try database.value("SELECT unregister_device('a', 'ab12cd34')") == "f")
        #expect(try database.value("SELECT touch_device('a', 'ab12cd34')") == "t")
        #expect(try database.value("SELECT touch_device('z', 'ab12cd34')") == "f")
    }

    @Test func anotherTokenIsAnotherRegistration() throws {
        try database.psql(
            """
            INSERT INTO devices (user_id, device_token, registered_at)
            VALUES ('a', 'ab12cd34', '2020-01-01'), ('b', 'ab12cd35', '2020-01-01'), ('c', 'ab12cd36', '2020-01-01');
            UPDATE devices SET device_token = 'AB12CD37' WHERE user_id = 'a';
            UPDATE devices SET device_token = 'ab12cd38', registered_at = '2021-01-01' WHERE user_id = 'b';
            UPDATE devices SET device_token = 'AB12 CD36', platform = 'macos' WHERE user_id = 'c'
            """)
        #expect(
            try database.psql(
                """
                SELECT user_id, CASE WHEN registered_at > now() - interval '1 h' THEN 'now' ELSE extract(year FROM registered_at)::text END
                FROM devices ORDER BY 1
                """) == [["a", "now"], ["b", "2021"], ["c", "2020"]])
    }

    @Test func whatDoesNotChangeIsNotChecked() throws {
        try database.psql(
            """
            SET session_replication_role = replica;
            INSERT INTO devices (user_id, device_token, time_zone) VALUES ('a', 'ab12cd34', 'Europe/Entenhausen');
            RESET session_replication_role;
            UPDATE devices SET is_active = false
            """)
        #expect(try database.psql("SELECT is_active, deactivated_at IS NULL FROM devices") == [["f", "f"]])
        #expect(try database.refusal("UPDATE devices SET time_zone = 'Europe/Gansbach'") == "PN019")
        #expect(try database.refusal("UPDATE devices SET device_token = 'xyz'") == "PN015")
        #expect(try database.refusal("UPDATE devices SET app = ''") == "PN030")
        #expect(try database.refusal("UPDATE devices SET user_id = ''") == "PN030")
    }
}
