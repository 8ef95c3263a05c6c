// Two teams and three apps in one worker, at one and the same service: no connection carries two of their keys, and a key that is
// refused is the matter of its own app alone.

import Foundation
import TestSupport
import Testing

@Suite("Two teams and three apps") struct TeamsApart {
    private static let apps = ["one", "two", "three"]

    // `one` has the simulator's own, `two` another of the same team, `three` one of another team.
    /// A further key.
    private struct Key {
        let id: String
        let team: String
        let path: String

        init(_ id: String, team: String, in folder: String) throws {
            self.id = id
            self.team = team
            path = "\(folder)/AuthKey_\(id).p8"
            let script = """
                openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out \(path)
                """
            try #require(try Subprocess.run("/bin/sh", ["-ec", script]).status == 0)
        }

        var option: [String] { ["--key", "id=\(id),team=\(team),file=\(path)"] }
        var settings: [String: String] { ["key_id": id, "team_id": team, "key_path": path] }
    }

    private func run(_ body: (Rig, [String: String]) async throws -> Void) async throws {
        let folder = "\(NSTemporaryDirectory())/pgpush-keys-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let two = try Key("TWOSKEY001", team: "SIMTEAM001", in: folder)
        let three = try Key("THREESKEY1", team: "OTHERTEAM1", in: folder)
        let bundles = Self.apps.flatMap { ["--bundle-id", "com.example.\($0)"] }
        try await Rig.run(.heavy, simulator: bundles + two.option + three.option) { rig in
            var file = AppsFile()
            for (number, app) in Self.apps.enumerated() {
                var settings = ["bundle_id": "com.example.\(app)"]
                if app == "two" { settings.merge(two.settings) { $1 } }
                if app == "three" { settings.merge(three.settings) { $1 } }
                file.add(app, at: rig.simulator, settings)
                try rig.addDevices(of: app, 400, offset: number * 1000)
            }
            try await body(rig, try file.write(in: rig.simulator.folder))
        }
    }

    private func enqueue(_ rig: Rig) throws {
        for app in Self.apps {
            try rig.psql("INSERT INTO scheduled_notifications (app, broadcast, body) VALUES ('\(app)', true, 'all')")
            try rig.addSingles(of: app, 200)
        }
    }

    @Test("share no connection, and a refused key delays, parks and repeats nothing of the others")
    func apart() async throws {
        try await run { rig, variables in
            let worker = try rig.worker("--lanes", "2", "--connections", "2", "--poll-interval", "1", more: variables)
            try enqueue(rig)
            for app in Self.apps { try await rig.finished(app, within: .seconds(180)) }
            #expect(try await rig.simulator.counts().accepted == 1800)

            try await rig.simulator.control("revoke TWOSKEY001")
            try enqueue(rig)
            for app in ["one", "three"] { try await rig.finished(app, within: .seconds(180)) }
            try await rig.eventually(
                "SELECT string_agg(DISTINCT app || ' ' || reason, ', ') FROM app_pauses", is: "two InvalidProviderToken"
            )
            #expect(
                try rig.psql(
                    """
                    SELECT count(*), sum(accepted_count) FROM scheduled_notifications WHERE app <> 'two' AND status = 'sent'
                    """) == [["804", "2400"]])
            #expect(
                try rig.database.number(
                    "SELECT count(*) FROM notification_batches WHERE app <> 'two' AND (state <> 'done' OR attempts > 1)"
                )
                    == 0)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE app <> 'two'") == 0)
            // Nothing of the one in trouble is lost either.
            #expect(
                try rig.database.number(
                    "SELECT count(*) FROM scheduled_notifications WHERE app = 'two' AND finished_at IS NULL") == 201)
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures WHERE is_final") == 0)

            try await rig.simulator.control("restore TWOSKEY001")
            try rig.psql("SELECT resume_app('two'); SELECT pg_notify('pgpush', '')")
            try await rig.finished("two", within: .seconds(180))
            try await worker.stop()
            #expect(
                try rig.psql("SELECT DISTINCT status, rejected_count + unknown_count FROM scheduled_notifications")
                    == [["sent", "0"]])
            try judge(try rig.simulator.journal())
        }
    }

    /// Who carried what, by connection.
    private func judge(_ journal: SimulatorJournal) throws {
        #expect(journal.accepted.count == 3600)
        let byConnection = Dictionary(grouping: journal.requests) { $0.connection }
        for (number, requests) in byConnection {
            #expect(Set(requests.compactMap(\.authorization)).count == 1, "connection \(number)")
            #expect(Set(requests.compactMap { $0.headers["apns-topic"] }).count == 1, "connection \(number)")
            #expect(requests.allSatisfy { $0.authorization != nil })
        }
        let byTopic = Dictionary(grouping: journal.requests) { $0.headers["apns-topic"] ?? "" }
        #expect(byTopic.keys.sorted() == ["com.example.one", "com.example.three", "com.example.two"])
        // No push of the others was sent twice.
        for topic in ["com.example.one", "com.example.three"] {
            let requests = byTopic[topic] ?? []
            #expect(requests.count == 1200 && Set(requests.compactMap(\.apnsId)).count == 1200)
        }
        // One provider token each, and none of them for two apps.
        let tokens = byTopic.mapValues { Set($0.compactMap(\.authorization)) }
        #expect(Set(tokens.values.flatMap(\.self)).count == tokens.values.reduce(0) { $0 + $1.count })
    }
}
