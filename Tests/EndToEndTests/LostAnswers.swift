// Answers of the database that never arrive: a claim is committed and the worker does not hear of it.

import Foundation
import TestSupport
import Testing

@Suite("A claim whose answer is lost") struct LostAnswers {
    @Test(
        "costs seconds, not a lease: what it leased is given back and sent, once",
        arguments: ["claim_notifications", "claim_broadcasts", "claim_batches"])
    func claim(_ function: String) async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...40)
            let (proxy, variables) = try rig.databaseProxy()
            defer { proxy.close() }
            var ids: [Int] = []
            switch function {
            case "claim_notifications":
                for user in 1...20 {
                    ids.append(try rig.insert("user_id, body, delivery", "'user-\(user)', 'x', 'at_most_once'"))
                }
            case "claim_broadcasts":
                ids.append(try rig.insert("broadcast, body, delivery", "true, 'x', 'at_most_once'"))
            default:
                // More than a batch: the list becomes ready batches.
                ids.append(
                    try rig.insert(
                        "user_ids, body", "ARRAY(SELECT 'user-' || i FROM generate_series(1, 40) i), 'x'"))
            }
            proxy.set(TCPProxy.Trap(on: function, .cutAfterAnswer(ending: TCPProxy.Trap.postgresAnswer)))
            let worker = try rig.worker("--lanes", "1", "--batch-size", "10", more: variables)
            try await worker.logs("claim failed")
            // A claim of batches finds something at its second turn only; what is given back was leased.
            try await worker.logs("units of a claim whose outcome was unknown are given back", within: .seconds(180))
            proxy.set(nil)
            #expect(proxy.sprung > 0)
            // Well before the end of a lease, after which the rescue would book them as unknown.
            for id in ids { try await rig.status(of: id, is: "sent", within: .seconds(180)) }
            try await worker.stop()
            let accepted = try rig.simulator.journal().accepted.compactMap(\.apnsId)
            #expect(accepted.count == Set(accepted).count)
            #expect(accepted.count == (function == "claim_notifications" ? 20 : 40))
            #expect(try rig.database.number("SELECT sum(unknown_count) FROM scheduled_notifications") == 0)
        }
    }
}
