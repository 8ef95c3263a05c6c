// Pushes to channels go where pushes to devices go, unless the configuration file names another host for them. Two simulators with
// the same authority and key stand for the two.

import Foundation
import TLS
import TestSupport
import Testing

@Suite("broadcast_url") struct BroadcastHost {
    private func run(
        _ load: Rig.Load = .light, _ body: (Rig, SimulatorProcess, [String: String]) async throws -> Void
    ) async throws {
        try await Rig.run(load) { rig in
            try await SimulatorProcess.run(["--ca-dir", "\(rig.simulator.folder)/credentials"]) { other in
                let own = rig.environment
                // Channels of production are managed and sent to at the other; those of the sandbox where its devices are.
                let app: [String: Any] = [
                    "name": "default", "bundle_id": own["APNS_BUNDLE_ID"] ?? "",
                    "production": ["manage_url": other.productionURL, "broadcast_url": other.productionURL],
                    "sandbox": ["manage_url": rig.simulator.sandboxURL],
                ]
                let file = "\(rig.simulator.folder)/apps.json"
                try JSONSerialization.data(withJSONObject: ["apps": [app]]).write(to: URL(fileURLWithPath: file))
                try await body(rig, other, ["PGPUSH_CONFIG": file])
            }
        }
    }

    private func create(_ rig: Rig, _ more: [String: String], sandbox: Bool = false) throws -> String {
        let words = sandbox ? ["--sandbox"] : []
        let result = try Subprocess.run(
            SimulatorProcess.executable("pgpush").path, ["channels", "create"] + words,
            environment: rig.environment.merging(more) { $1 })
        try #require(result.status == 0, "\(result.errors)")
        return result.output.trimmingCharacters(in: .newlines)
    }

    private func insert(_ rig: Rig, _ channel: String, environment: String = "production") throws -> Int {
        try rig.insert(
            "channel_id, environment, push_type, aps",
            """
            '\(channel)', '\(environment)', 'liveactivity', '{"event": "update", "content-state": {"score": "2:1"}}'
            """)
    }

    @Test("takes the pushes to channels of its environment, and no others")
    func apart() async throws {
        try await run { rig, other, more in
            try rig.addDevices(1...3)
            let production = try insert(rig, try create(rig, more))
            let sandbox = try insert(rig, try create(rig, more, sandbox: true), environment: "sandbox")
            let devices = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.drain(more: more)
            #expect(try rig.row(production) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(sandbox) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(devices) == NotificationRow("sent", 3, accepted: 3))
            func paths(_ simulator: SimulatorProcess, _ environment: String) throws -> [String] {
                Set(
                    try simulator.journal().accepted.filter { $0.environment == environment }.map {
                        $0.path.split(separator: "/").prefix(2).joined(separator: "/")
                    }
                ).sorted()
            }
            #expect(try paths(other, "production") == ["4/broadcasts"])
            #expect(try paths(other, "sandbox") == [])
            #expect(try paths(rig.simulator, "production") == ["3/device"])
            #expect(try paths(rig.simulator, "sandbox") == ["4/broadcasts"])
            let doctor = try rig.pgpush("doctor", more: more)
            for url in [rig.simulator.productionURL, rig.simulator.sandboxURL, other.productionURL] {
                #expect(doctor.output.contains(url.dropFirst("https://".count)), "\(url): \(doctor.output)")
            }
        }
    }

    @Test("out of reach holds up channels alone, and they go out when it is back")
    func away() async throws {
        try await run(.idle) { rig, other, more in
            try rig.addDevices(1...3)
            let channel = try create(rig, more)
            try await other.set("admission", "refuse")
            let worker = try rig.worker("--poll-interval", "1", more: more)
            try await rig.listeners(1)
            let held = try insert(rig, channel)
            try await worker.logs("connecting failed", within: .seconds(60))
            let devices = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.status(of: devices, is: "sent", within: .seconds(90))
            #expect(try rig.value("finished_at IS NULL", of: held) == "t")
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE is_final") == 0)
            try await other.set("admission", "open")
            try await rig.status(of: held, is: "sent", within: .seconds(180))
            try await worker.stop()
            #expect(try rig.row(held) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    @Test("is read strictly, and not from the environment")
    func mistakes() throws {
        let folder = "\(NSTemporaryDirectory())/pgpush-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try Data(try P256PrivateKey.generate().pkcs8PEM.utf8).write(to: URL(fileURLWithPath: "\(folder)/key.p8"))
        func pgpush(_ settings: String, _ words: String...) throws -> CommandResult {
            let text = """
                {\(settings) "key_path": "key.p8", "key_id": "ABCDEFGHIJ", "team_id": "ABCDEFGHIJ",
                 "production_url": "https://127.0.0.1:1", "sandbox_url": "https://127.0.0.1:1",
                 "apps": [{"name": "default", "bundle_id": "com.example.shop"}]}
                """
            try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/apps.json"))
            return try Subprocess.run(
                CommandLineRunner.executable, words,
                environment: [
                    "PGPUSH_CONFIG": "\(folder)/apps.json", "APNS_BROADCAST_URL": "http://nowhere",
                    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x",
                ])
        }
        for settings in ["\"broadcast_url\": \"http://a\",", "\"broadcast_uri\": \"https://a\","] {
            let refused = try pgpush(settings, "worker", "--once")
            #expect(refused.status == 4 && refused.errors.contains("broadcast_url"), "\(refused)")
        }
        let examined = try pgpush("", "doctor")
        #expect(!(examined.output + examined.errors).contains("nowhere"), "\(examined)")
        let named = try pgpush("\"broadcast_url\": \"https://127.0.0.1:2\",", "doctor")
        #expect(named.output.contains("127.0.0.1:2"), "\(named)")
    }
}
