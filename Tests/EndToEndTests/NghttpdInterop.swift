// A worker before nghttpd, straight and through a proxy; nghttpd dies in the middle of a broadcast and comes back. Its log of frames is
// the judge.

import Foundation
import TestSupport
import Testing

@Suite("A worker before nghttpd") struct NghttpdInterop {
    @Test(
        "is accepted; an answer that Apple would not give holds the environment and fails nobody",
        arguments: [false, true])
    func answers(isProxied: Bool) async throws {
        try await withProxy(isProxied) { proxy in
            try await Rig.run { rig in
                try rig.addDevices(1...301)
                try await Nghttpd.run(rig.simulator, ["-m", "7"]) { server in
                    let more = server.variables.merging(proxy) { $1 }
                    try server.accept((1...300).map(DeviceTokens.plain))
                    let users = "ARRAY(SELECT 'user-' || i FROM generate_series(1, 300) i)"
                    let id = try rig.insert("user_ids, body", "\(users), 'x'")
                    try await rig.drain(more: more, within: .seconds(120))
                    #expect(try rig.row(id) == NotificationRow("sent", 300, accepted: 300))
                    let ids = try rig.column("SELECT apns_id(\(id), id) FROM devices WHERE id <= 300")
                    #expect(Difference(expected: ids, seen: server.answered(200)) == .none)

                    // Its token is no file: 404, in nghttpd's words.
                    let other = try rig.insert("user_id, body", "'user-301', 'x'")
                    try await rig.drain(more: more)
                    let otherID = try rig.database.value("SELECT apns_id(\(other), 301)")
                    #expect(Set(server.answered(404)) == [otherID])
                    #expect(try rig.column("SELECT environment FROM app_pauses") == ["production"])
                    #expect(try rig.value("finished_at IS NULL", of: other) == "t")
                    #expect(try rig.database.number("SELECT count(*) FROM devices WHERE is_active") == 301)
                    try server.accept([DeviceTokens.plain(301)])
                    try rig.psql("SELECT resume_app('default')")
                    try await rig.drain(more: more)
                    #expect(try rig.row(other) == NotificationRow("sent", 1, accepted: 1))
                }
            }
        }
    }

    @Test(
        "that is killed in the middle of a broadcast and started again loses nothing, and repeats only what had no answer",
        arguments: [false, true])
    func killed(isProxied: Bool) async throws {
        try await withProxy(isProxied) { proxy in
            try await Rig.run { rig in
                try rig.addDevices(1...600)
                try await Nghttpd.run(rig.simulator) { server in
                    let tokens = (1...600).map(DeviceTokens.plain)
                    try server.accept(tokens)
                    try server.stopAt(tokens[299])
                    let more = server.variables.merging(proxy) { $1 }
                    let worker = try rig.worker(
                        "--lanes", "1", "--connections", "2", "--poll-interval", "1", more: more)
                    let id = try rig.insert("broadcast, body", "true, 'x'")
                    try await server.standsStill(at: tokens[299])
                    let before = server.answered(200)
                    server.kill()
                    try server.goOn(tokens[299])
                    try await server.start()
                    try await rig.status(of: id, is: "sent", within: .seconds(240))
                    try await worker.stop()
                    #expect((1..<600).contains(before.count), "in the middle: \(before.count)")
                    #expect(try rig.row(id) == NotificationRow("sent", 600, accepted: 600))
                    let expected = try rig.column("SELECT apns_id(\(id), id) FROM devices")
                    let seen = Difference(expected: expected, seen: server.answered(200))
                    #expect(seen.missing == [])
                    // A proxy that was slow takes answers with it that it has not passed on: of the streams of two connections.
                    #expect(seen.surplus.count <= (isProxied ? 200 : 0), "\(seen)")
                    #expect(Set(seen.surplus).isSubset(of: before))
                }
            }
        }
    }
}
