// Apple's rule that a connection changes its provider token at most every 20 minutes: one token serves all connections that a worker
// opens, however those before ended, and another key has connections of its own.

import Foundation
import TLS
import TestSupport
import Testing

@Suite("A provider token") struct TokenChanges {
    private struct Seen {
        let connection: Int
        let authorization: String
    }

    /// Sends one push and says what carried it.
    private func send(_ rig: Rig) async throws -> Seen {
        let id = try rig.insert("user_id, body", "'user-1', 'x'")
        try await rig.status(of: id, is: "sent", within: .seconds(90))
        let apnsID = try rig.database.value("SELECT apns_id(\(id), 1)")
        let carried = try rig.simulator.journal().accepted.first { $0.apnsId == apnsID }
        let accepted = try #require(carried)
        return Seen(connection: accepted.connection, authorization: try #require(accepted.authorization))
    }

    /// The clock of token changes runs for the gateway as a whole, so a second token within 20 minutes would be refused on any
    /// connection.
    @Test(
        "outlives connections of every end; a key read on SIGHUP goes over new ones, and the first key comes back with its token"
    )
    func kept() async throws {
        let folder = "\(NSTemporaryDirectory())/pgpush-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let second = "\(folder)/AuthKey_SECONDKEY1.p8"
        try Data(try P256PrivateKey.generate().pkcs8PEM.utf8).write(to: URL(fileURLWithPath: second))
        let options = ["--token-change-shared", "on", "--key", "id=SECONDKEY1,team=SIMTEAM001,file=\(second)"]
        try await Rig.run(.idle, simulator: options) { rig in
            try rig.addDevices(1...1)
            func describe(_ more: [String: String] = [:]) throws -> [String: String] {
                var file = AppsFile()
                file.add("default", at: rig.simulator, more)
                return try file.write(in: folder)
            }
            let worker = try rig.worker("--lanes", "1", "--connections", "1", more: try describe())
            try await rig.listeners(1)
            var seen = [try await send(rig)]
            for ending in ["goaway", "close", "finish", "abort", "alert"] {
                try await rig.simulator.control(ending)
                try await rig.simulator.wait(for: .closed, atLeast: seen.count)
                seen.append(try await send(rig))
            }
            #expect(Set(seen.map(\.authorization)).count == 1)
            #expect(Set(seen.map(\.connection)).count == seen.count)
            #expect(try await rig.simulator.counts().count(429, "TooManyProviderTokenUpdates") == 0)

            // A key of its own has a clock of its own on its connections.
            try await rig.simulator.set("token-change-shared", "off")
            for (round, key) in [["key_path": second, "key_id": "SECONDKEY1"], [:]].enumerated() {
                _ = try describe(key)
                worker.signal(SIGHUP)
                try await worker.logs("the credentials were read again", times: round + 1)
                seen.append(try await send(rig))
            }
            try await worker.stop()
            let (other, again) = (seen[seen.count - 2], seen[seen.count - 1])
            #expect(other.authorization != seen[0].authorization)
            #expect(again.authorization == seen[0].authorization, "no third token within 20 minutes")
            #expect(Set(seen.map(\.connection)).count == seen.count, "no connection has met two keys")
            let journal = try rig.simulator.journal()
            let byConnection = Dictionary(grouping: journal.requests, by: \.connection)
            #expect(byConnection.values.allSatisfy { Set($0.compactMap(\.authorization)).count == 1 })
            #expect(journal.requests.allSatisfy { $0.status == nil || $0.isAccepted })
        }
    }

    /// A token that is made because Apple has called the last one expired comes when the other connections are young.
    @Test("that is renewed early changes on no connection: those that carried the old one are replaced")
    func renewed() async throws {
        try await Rig.run(.heavy, simulator: ["--stream-limit", "20"]) { rig in
            try rig.addDevices(1...400)
            let worker = try rig.worker("--lanes", "2", "--connections", "4")
            try await rig.listeners(1)
            let first = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.status(of: first, is: "sent", within: .seconds(90))
            try await rig.simulator.control("expire-tokens")
            let second = try rig.insert("broadcast, body", "true, 'x'")
            try await rig.status(of: second, is: "sent", within: .seconds(90))
            try await worker.stop()
            for id in [first, second] { #expect(try rig.row(id) == NotificationRow("sent", 400, accepted: 400)) }
            let journal = try rig.simulator.journal()
            #expect(Set(journal.requests.compactMap(\.authorization)).count == 2)
            let byConnection = Dictionary(grouping: journal.requests, by: \.connection)
            #expect(byConnection.values.allSatisfy { Set($0.compactMap(\.authorization)).count == 1 })
            #expect(journal.requests.allSatisfy { $0.reason != "TooManyProviderTokenUpdates" })
        }
    }
}
