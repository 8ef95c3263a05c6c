// Credentials change while a worker runs: SIGHUP, and it goes over to them without losing or repeating anything.

import Foundation
import TLS
import TestSupport
import Testing

@Suite("On SIGHUP a worker") struct Reloads {
    /// A folder with a second key that the simulator knows, and the option that tells it.
    private static func secondKey() throws -> (file: String, option: [String]) {
        let file = "\(NSTemporaryDirectory())/AuthKey_SECONDKEY1-\(UUID().uuidString).p8"
        try Data(try P256PrivateKey.generate().pkcs8PEM.utf8).write(to: URL(fileURLWithPath: file))
        return (file, ["--key", "id=SECONDKEY1,team=SIMTEAM001,file=\(file)"])
    }

    @Test("goes over to a new key in the middle of a broadcast; each connection has carried one key only")
    func newKey() async throws {
        let second = try Self.secondKey()
        let slow = ["--latency-ms", "100", "--stream-limit", "20"]
        try await Rig.run(.heavy, simulator: second.option + slow) { rig in
            try rig.addDevices(1...3000)
            let file = "\(NSTemporaryDirectory())/pgpush-\(UUID().uuidString).json"
            func describe(_ key: String, _ id: String) throws {
                let app = [
                    "name": "default", "bundle_id": rig.environment["APNS_BUNDLE_ID"] ?? "", "key_path": key,
                    "key_id": id,
                    "team_id": rig.environment["APNS_TEAM_ID"] ?? "",
                ]
                try JSONSerialization.data(withJSONObject: ["apps": [app]]).write(to: URL(fileURLWithPath: file))
            }
            let first = (rig.environment["APNS_KEY_PATH"] ?? "", rig.environment["APNS_KEY_ID"] ?? "")
            try describe(first.0, first.1)
            let more = [
                "PGPUSH_CONFIG": file, "APNS_KEY_PATH": "", "APNS_KEY_ID": "", "APNS_TEAM_ID": "", "APNS_BUNDLE_ID": "",
            ]
            let worker = try rig.worker("--lanes", "2", "--connections", "2", more: more)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.simulator.wait(for: .accepted, atLeast: 200)

            // A mistake changes nothing.
            try Data("{".utf8).write(to: URL(fileURLWithPath: file))
            worker.signal(SIGHUP)
            try await worker.logs("could not be read again, the old ones stay")
            try describe(second.file, "SECONDKEY1")
            worker.signal(SIGHUP)
            try await worker.logs("the credentials were read again")
            try await rig.status(of: id, is: "sent", within: .seconds(120))
            try await worker.stop()

            #expect(try rig.row(id) == NotificationRow("sent", 3000, accepted: 3000))
            let requests = try rig.simulator.journal().requests
            #expect(requests.count == 3000, "nothing is repeated")
            #expect(Set(requests.compactMap(\.authorization)).count == 2)
            let byConnection = Dictionary(grouping: requests, by: \.connection)
            #expect(byConnection.values.allSatisfy { Set($0.compactMap(\.authorization)).count == 1 })
            #expect(try rig.database.number("SELECT count(*) FROM notification_batches WHERE attempts > 1") == 0)
        }
    }

    @Test(
        "lets the devices of an environment wait that has lost its credential, and goes on with them when it has one again"
    )
    func lostEnvironment() async throws {
        // A thousand in three seconds: for most of a minute there is more in work than the pool takes.
        try await Rig.run(.heavy, simulator: ["--latency-ms", "3000", "--first-limit", "1000"]) { rig in
            try rig.addDevices(1...20_000)
            try rig.psql("UPDATE devices SET environment = 'sandbox'")
            let file = "\(NSTemporaryDirectory())/pgpush-\(UUID().uuidString).json"
            func describe(_ environments: [String]) throws {
                let key = [
                    "key_path": rig.environment["APNS_KEY_PATH"] ?? "", "key_id": rig.environment["APNS_KEY_ID"] ?? "",
                    "team_id": rig.environment["APNS_TEAM_ID"] ?? "",
                ]
                var app: [String: Any] = ["name": "default", "bundle_id": rig.environment["APNS_BUNDLE_ID"] ?? ""]
                for environment in environments { app[environment] = key }
                try JSONSerialization.data(withJSONObject: ["apps": [app]]).write(to: URL(fileURLWithPath: file))
            }
            try describe(["production", "sandbox"])
            let more = [
                "PGPUSH_CONFIG": file, "APNS_KEY_PATH": "", "APNS_KEY_ID": "", "APNS_TEAM_ID": "", "APNS_BUNDLE_ID": "",
            ]
            let worker = try rig.worker("--poll-interval", "1", "--connections", "1", "--lanes", "1", more: more)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            // On the wire and in line for it are four batches and a part: the others have nothing there.
            let leased = "SELECT count(*) FROM notification_batches WHERE state = 'leased'"
            try await rig.eventually("SELECT (\(leased)) >= 8", is: "t", within: .seconds(120))
            try describe(["production"])
            worker.signal(SIGHUP)
            // Written back at once: what was not sent is parked, not when a lease has ended and somebody has claimed it again.
            try await rig.eventually(leased, is: "0", within: .seconds(150))
            #expect(try rig.database.number("SELECT max(epoch) FROM notification_batches") == 1)
            let parked = "SELECT sum(device_count) FROM notification_batches WHERE state = 'parked'"
            #expect(try rig.database.number(parked) >= 2000)
            #expect(
                try rig.column("SELECT reason FROM app_pauses") == ["no credential for sandbox is configured"])
            #expect(try rig.value("status", of: id) == "sending")

            try describe(["production", "sandbox"])
            worker.signal(SIGHUP)
            try await worker.logs("the credentials were read again", times: 2)
            try await rig.simulator.set("latency-ms", 0)
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.status(of: id, is: "sent", within: .seconds(240))
            try await worker.stop()
            #expect(try rig.row(id) == NotificationRow("sent", 20_000, accepted: 20_000))
            // Nothing twice, but for what was not answered in time.
            let unanswered = try rig.database.number("SELECT count(*) FROM delivery_failures")
            #expect(try rig.simulator.journal().requests.count == 20_000 + unanswered)
        }
    }

    @Test("takes a certificate that was put into the place of a bad one, and the pause ends")
    func newCertificate() async throws {
        try await Rig.run(simulator: ["--auth", "certificate"]) { rig in
            try rig.addDevices(1...5)
            let good = try #require(rig.environment["APNS_CERT_PATH"]).dropLast(3) + "pem"
            let path = "\(NSTemporaryDirectory())/pgpush-\(UUID().uuidString).pem"
            let expired = try CertificateIssuer().issue(
                commonName: "old", names: [], usage: .client, validFrom: -10 * 86_400, validTo: -86_400,
                userID: rig.environment["APNS_BUNDLE_ID"])
            try Data(expired.certificatePEM + expired.privateKeyPEM).write(to: URL(fileURLWithPath: path))
            let more = ["APNS_CERT_PATH": path, "APNS_CERT_PASSWORD": ""]
            let doctor = try rig.pgpush("doctor", more: more)
            #expect(doctor.output.contains("has expired"), "\(doctor.output)")
            let worker = try rig.worker("--poll-interval", "1", more: more)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            try await worker.logs("a certificate has expired")
            try await worker.logs("sending is paused", within: .seconds(60))
            #expect(try rig.value("status", of: id) == "sending" || rig.value("status", of: id) == "pending")

            try Data(contentsOf: URL(fileURLWithPath: String(good))).write(to: URL(fileURLWithPath: path))
            worker.signal(SIGHUP)
            try await worker.logs("the credentials were read again")
            try await rig.eventually("SELECT count(*) FROM app_pauses", is: "1")
            try rig.psql("UPDATE app_pauses SET next_probe_at = now()")
            try await rig.status(of: id, is: "sent", within: .seconds(120))
            try await worker.stop()
            #expect(try rig.row(id) == NotificationRow("sent", 5, accepted: 5))
        }
    }
}
