// Signing in with a certificate: everything goes out as with a key, and a fault of the certificate costs nobody's notification.

import Foundation
import TestSupport
import Testing

@Suite("With a certificate") struct Certificates {
    @Test("a worker sends singles, lists and broadcasts, without a provider token", arguments: ["p12", "pem"])
    func sends(form: String) async throws {
        try await Rig.run(simulator: ["--auth", "certificate"]) { rig in
            try rig.addDevices(1...700)
            let path = try #require(rig.environment["APNS_CERT_PATH"])
            let more = form == "p12" ? [:] : ["APNS_CERT_PATH": path.dropLast(3) + "pem", "APNS_CERT_PASSWORD": ""]
            let single = try rig.insert("user_id, body", "'user-1', 'x'")
            let call = try rig.insert("user_id, push_type, data", "'user-2', 'voip', '{\"a\": 1}'")
            let all = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain(more: more.mapValues { String($0) })
            #expect(try rig.row(single) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(call) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(all) == NotificationRow("sent", 700, accepted: 700))
            let requests = try rig.simulator.journal().requests
            #expect(requests.count == 702 && requests.allSatisfy { $0.authorization == nil })
            // Apple gives such connections all their streams at once.
            #expect(try await rig.simulator.counts().opened <= 4)
        }
    }

    @Test(
        "that Apple does not take the app is paused: no row fails, a few attempts are made, and all goes out with a good one"
    )
    func refused() async throws {
        try await Rig.run(simulator: ["--auth", "certificate"]) { rig in
            try rig.addDevices(1...50)
            let good = try #require(rig.environment["APNS_CERT_PATH"]).dropLast(3) + "pem"
            let foreign = "\(NSTemporaryDirectory())/pgpush-\(UUID().uuidString).pem"
            let script = """
                openssl req -x509 -newkey rsa:2048 -nodes -keyout \(foreign).key -out \(foreign).crt -days 2 \
                    -subj '/CN=Nobody/UID=com.example.pgpush' 2>/dev/null
                cat \(foreign).crt \(foreign).key > \(foreign)
                """
            try #require(try Subprocess.run("/bin/sh", ["-ec", script]).status == 0)
            try rig.psql("INSERT INTO scheduled_notifications (user_id, body) SELECT user_id, 'x' FROM devices")
            let wrong = try await rig.drain(more: ["APNS_CERT_PATH": foreign, "APNS_CERT_PASSWORD": ""])
            #expect(wrong.log.contains("sending is paused") && wrong.log.contains("TLS alert"), "\(wrong.log)")
            #expect(
                try rig.database.number("SELECT count(*) FROM scheduled_notifications WHERE finished_at IS NULL") == 50)
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 0)
            #expect(
                try rig.psql("SELECT environment, topic, reason LIKE 'TLS alert: %', automatic FROM app_pauses")
                    == [["production", nil, "t", "t"]])
            #expect(try await rig.simulator.counts().knocks <= 12)

            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            let worker = try rig.worker(
                "--poll-interval", "1", more: ["APNS_CERT_PATH": String(good), "APNS_CERT_PASSWORD": ""])
            try await rig.eventually(
                "SELECT count(*) FROM scheduled_notifications WHERE status = 'sent'", is: "50", within: .seconds(240))
            try await worker.stop()
            #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 0)
            #expect(try await rig.simulator.counts().requests == 50)
        }
    }

    @Test("for one environment alone, devices of the other wait and say why")
    func oneEnvironment() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...3)
            try rig.psql("UPDATE devices SET environment = 'sandbox' WHERE id = 2")
            let file = "\(NSTemporaryDirectory())/pgpush-\(UUID().uuidString).json"
            func quoted(_ name: String) -> String { "\"\(rig.environment["APNS_" + name] ?? "")\"" }
            let key = """
                {"key_path": \(quoted("KEY_PATH")), "key_id": \(quoted("KEY_ID")), "team_id": \(quoted("TEAM_ID"))}
                """
            func describe(_ environments: [String]) throws {
                let parts = environments.map { "\"\($0)\": \(key)" }.joined(separator: ", ")
                let text = "{\"apps\": [{\"name\": \"default\", \"bundle_id\": \(quoted("BUNDLE_ID")), \(parts)}]}"
                try Data(text.utf8).write(to: URL(fileURLWithPath: file))
            }
            let more = ["PGPUSH_CONFIG": file, "APNS_KEY_PATH": "", "APNS_KEY_ID": "", "APNS_TEAM_ID": ""]
            try describe(["production"])
            let id = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain(more: more)
            #expect(try rig.simulator.journal().accepted.count == 2)
            #expect(
                try rig.psql("SELECT environment, reason FROM app_pauses")
                    == [["sandbox", "no credential for sandbox is configured"]])
            #expect(try rig.value("status", of: id) == "sending")
            // Asked for again it still waits.
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.drain(more: more)
            #expect(try rig.simulator.journal().accepted.count == 2)
            let doctor = try rig.pgpush("doctor", more: more)
            #expect(doctor.output.contains("devices of sandbox wait"), "\(doctor.output)")

            try describe(["production", "sandbox"])
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.drain(more: more)
            #expect(try rig.row(id) == NotificationRow("sent", 3, accepted: 3))
        }
    }
}
