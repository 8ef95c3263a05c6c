// Broadcast channels: the verbs that manage them, with no database anywhere, and notifications that go to them.

import Foundation
import TestSupport
import Testing

@Suite("Channels") struct Channels {
    private func runner(_ simulator: SimulatorProcess, _ more: [String: String] = [:]) -> CommandLineRunner {
        CommandLineRunner().with(simulator.environment).with(more)
    }

    @Test("are made, shown, listed and deleted", arguments: ["token", "certificate"])
    func verbs(authentication: String) async throws {
        try await SimulatorProcess.run(["--auth", authentication]) { simulator in
            let pgpush = runner(simulator)
            let id = try pgpush.output("channels", "create")
            let other = try pgpush.objects("channels", "create", "--storage", "none")
            let otherID = try #require(other.first?["id"] as? String)
            #expect(other.first?["storage"] as? String == "none")
            #expect(other.first?["bundle_id"] as? String == "com.example.pgpush")
            #expect(try pgpush.output("channels", "list") == "\(id)\n\(otherID)")
            let shown = try pgpush.objects("channels", "read", id, otherID)
            #expect(shown.map { $0["storage"] as? String } == ["latest", "none"])
            #expect(shown.map { $0["push_type"] as? String } == ["LiveActivity", "LiveActivity"])
            #expect(try pgpush.output("channels", "read", id).contains("latest"))

            let deleted = try pgpush.objects("channels", "delete", "--yes", id)
            #expect(deleted.map { $0["result"] as? String } == ["deleted"])
            let again = try pgpush.run("channels", "delete", "--yes", id, otherID)
            #expect(again.status == 3, "\(again.errors)")
            #expect(again.output == "\(id)  not_found\n\(otherID)  deleted\n")
            #expect(again.errors.contains("400 ChannelNotRegistered") && again.errors.contains("channels list"))
            let gone = try pgpush.run("channels", "read", id)
            #expect(gone.status == 3 && gone.output.isEmpty)
            let none = try pgpush.run("channels", "list", "--json")
            #expect(none.status == 3 && none.output.isEmpty && none.errors.contains("no channels"))

            let requests = try simulator.journal().requests
            let path = "/1/apps/com.example.pgpush/channels"
            #expect(requests.first?.method == "POST" && requests.first?.path == path)
            #expect(requests.first?.body == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
            #expect(requests.map(\.status) == [201, 201, 200, 200, 200, 200, 204, 400, 204, 400, 200])
            let ids = requests.compactMap { $0.headers["apns-request-id"] }
            #expect(Set(ids).count == requests.count)
            #expect(again.errors.contains(ids[7]), "Apple asks for it")
            #expect(requests.allSatisfy { ($0.authorization == nil) == (authentication == "certificate") })
            // Several requests of one call share a connection and a provider token.
            #expect(requests[7].connection == requests[8].connection)
        }
    }

    @Test("of the environments are apart, each at its own address")
    func environments() async throws {
        try await SimulatorProcess.run { simulator in
            let variables = simulator.environment
            func quoted(_ name: String) -> String { "\"\(variables["APNS_" + name] ?? "")\"" }
            let file = "\(simulator.folder)/apps.json"
            let text = """
                {"key_path": \(quoted("KEY_PATH")), "key_id": \(quoted("KEY_ID")), "team_id": \(quoted("TEAM_ID")),
                 "manage_url": "\(simulator.productionURL)",
                 "apps": [{"name": "shop", "bundle_id": "com.example.pgpush", "ca_path": \(quoted("CA_PATH")),
                           "sandbox": {"manage_url": "\(simulator.sandboxURL)"}},
                          {"name": "news", "bundle_id": "com.example.news", "key_path": "/nonexistent"}]}
                """
            try Data(text.utf8).write(to: URL(fileURLWithPath: file))
            let pgpush = CommandLineRunner().with(["PGPUSH_CONFIG": file])
            let production = try pgpush.output("channels", "create", "--app", "shop")
            let sandbox = try pgpush.output("channels", "create", "--app", "shop", "--sandbox")
            #expect(try pgpush.output("channels", "list", "--app", "shop") == production)
            #expect(try pgpush.output("channels", "list", "--app", "shop", "--sandbox") == sandbox)
            #expect(try pgpush.run("channels", "read", "--app", "shop", sandbox).status == 3)
            #expect(try simulator.journal().requests.prefix(2).map(\.environment) == ["production", "sandbox"])

            let unnamed = try pgpush.run("channels", "list")
            #expect(unnamed.status == 4 && unnamed.errors.contains("--app: shop, news"), "\(unnamed.errors)")
            #expect(try pgpush.run("channels", "list", "--app", "nobody").status == 4)
            let broken = try pgpush.run("channels", "list", "--app", "news")
            #expect(broken.status == 4 && broken.errors.contains("/nonexistent"))
        }
    }

    @Test("say what is wrong and what to do about it")
    func faults() async throws {
        try await SimulatorProcess.run(["--channel-limit", "1"]) { simulator in
            let pgpush = runner(simulator)
            let id = try pgpush.output("channels", "create")
            let full = try pgpush.run("channels", "create")
            #expect(full.status == 6 && full.errors.contains("CannotCreateChannelConfig"), "\(full.errors)")
            #expect(full.errors.contains("channels delete"))

            for words in [
                ["read", "a b"], ["read"], ["create", "--storage", "some"], ["delete", id], ["list", "x"],
            ] {
                let result = try Subprocess.run(
                    CommandLineRunner.executable, ["channels"] + words, environment: simulator.environment)
                #expect(result.status == 2, "\(words): \(result.errors)")
            }
            #expect(try pgpush.output("channels", "list") == id, "nothing was deleted without --yes")
            // Somebody at a terminal is asked.
            let terminal = pgpush.with(["TERM": "xterm", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"]).environment
            let asked = try Subprocess.run(
                "/usr/bin/script", ["-qefc", "\(CommandLineRunner.executable) channels delete \(id)", "/dev/null"],
                environment: terminal, input: "n\n")
            #expect(asked.status == 1 && asked.output.contains("for good. Go on? [y/N]"), "\(asked.output)")
            #expect(try pgpush.output("channels", "list") == id)

            try await simulator.set("answer-all", "403:InvalidProviderToken")
            let forbidden = try pgpush.run("channels", "list")
            #expect(forbidden.status == 4 && forbidden.errors.contains("hint:"), "\(forbidden.errors)")
            try await simulator.set("answer-all", "429:TooManyRequests")
            let throttled = try pgpush.run("channels", "delete", "--yes", id, id, id)
            #expect(throttled.status == 6 && throttled.errors.contains("the rest, 2, was not tried"))
            try await simulator.control("calm")

            try await simulator.set("latency-ms", 600_000)
            let silent = try pgpush.run("channels", "create", "--timeout", "8")
            #expect(silent.status == 6 && silent.errors.contains("not known whether this was done"), "\(silent.errors)")
            try await simulator.control("calm")

            let nobody = try runner(simulator, ["APNS_MANAGE_URL": "https://127.0.0.1:1"]).run("channels", "list")
            #expect(nobody.status == 6 && nobody.errors.contains("cannot be reached"), "\(nobody.errors)")
            let stranger = try runner(simulator, ["APNS_CA_PATH": ""]).run("channels", "list")
            #expect(stranger.status == 6 && stranger.errors.contains("cannot be trusted"), "\(stranger.errors)")
            let keyless = try runner(simulator, ["APNS_KEY_PATH": ""]).run("channels", "list")
            #expect(keyless.status == 4 && keyless.errors.contains("APNS_KEY_PATH"))
            let malformed = try runner(simulator, ["APNS_MANAGE_URL": "http://x"]).run("channels", "list")
            #expect(malformed.status == 4 && malformed.errors.contains("APNS_MANAGE_URL"))
            let foreign = try runner(simulator, ["APNS_BUNDLE_ID": "com.example.other"]).run("channels", "list")
            #expect(foreign.status == 4 && foreign.errors.contains("403 TopicMismatch"), "\(foreign.errors)")
        }
    }

    @Test("take notifications; those that Apple does not take fail with its reason")
    func notifications() async throws {
        try await Rig.run { rig in
            func create(_ storage: String) throws -> String {
                let result = try rig.pgpush("channels", "create", "--storage", storage)
                try #require(result.status == 0, "\(result.errors)")
                return result.output.trimmingCharacters(in: .newlines)
            }
            func insert(_ channel: String, _ more: String = "true") throws -> Int {
                try rig.insert(
                    "channel_id, store_if_offline, push_type, aps",
                    """
                    '\(channel)', \(more), 'liveactivity',
                    '{"event": "update", "content-state": {"score": "2:1"}}'
                    """)
            }
            let (latest, none, gone) = (try create("latest"), try create("none"), try create("latest"))
            try #require(try rig.pgpush("channels", "delete", "--yes", gone).status == 0)
            let good = try insert(latest)
            let unstored = try insert(none, "false")
            let expiring = try insert(none)
            let dead = try insert(gone)
            try await rig.drain()
            #expect(try rig.row(good) == NotificationRow("sent", 1, accepted: 1))
            #expect(try rig.row(unstored) == NotificationRow("sent", 1, accepted: 1))
            for (id, reason) in [(expiring, "BadExpirationDate"), (dead, "ChannelNotRegistered")] {
                #expect(try rig.row(id)?.status == "failed")
                #expect(try rig.value("error", of: id)?.contains(reason) == true)
                #expect(
                    try rig.column("SELECT reason FROM delivery_failures WHERE notification_id = \(id)") == [reason])
            }
            let broadcasts = try rig.simulator.journal().requests.filter { $0.path.hasPrefix("/4/broadcasts/") }
            #expect(broadcasts.count == 4 && broadcasts.allSatisfy { $0.warnings == nil })
            #expect(
                Set(broadcasts.filter(\.isAccepted).compactMap { $0.headers["apns-channel-id"] }) == [latest, none])
            // Made again, it is another channel; the notification goes out when it is sent to that.
            #expect(try rig.database.number("SELECT count(*) FROM app_pauses") == 0)
        }
    }
}
