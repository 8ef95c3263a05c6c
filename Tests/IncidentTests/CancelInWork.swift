// F23: a cancel meets work that is under way, in all its moments. What the command says, what the table ends with and what the
// gateway got must be one story. The exact race between a cancel and a claim is SQLTests' (F23 there, 200 rounds).

import TestSupport
import Testing

@Suite("A cancel of what is in work") struct CancelInWork {
    @Test("F23: says cancelling while the answer is on its way, twice the same, and the late 200 does not overwrite it")
    func answerOnTheWay() async throws {
        try await Rig.run(simulator: ["--first-limit", "100", "--latency-ms", "12000"]) { rig in
            try rig.addDevices(1...4)
            try rig.addSingles(1...4)
            let worker = try rig.worker()
            try await rig.simulator.wait(for: .held, atLeast: 4)
            for _ in 1...2 {
                let command = try rig.pgpush("cancel", "1")
                #expect(command.status == 0 && command.output.contains("cancelling"), "\(command)")
                #expect(try rig.database.value("SELECT cancel_notification(2, actor => 'ana')") == "cancelling")
                try rig.psql("UPDATE scheduled_notifications SET status = 'cancelled' WHERE id = 3")
                #expect(try rig.value("status", of: 3) == "cancelling")
            }
            try await rig.simulator.control("answer-held")
            for id in 1...3 { try await rig.status(of: id, is: "cancelled") }
            try await rig.status(of: 4, is: "sent")
            try await worker.stop()

            for id in 1...3 {
                #expect(try rig.row(id) == NotificationRow("cancelled", 1, accepted: 1))
                let again = try rig.pgpush("cancel", "\(id)")
                #expect(again.status == 0 && again.output.contains("already_cancelled"), "\(again)")
            }
            #expect(try rig.value("cancelled_by", of: 2) == "ana")
            let late = try rig.pgpush("cancel", "4")
            #expect(late.status == 1 && late.output.contains("already_sent"), "\(late)")
            #expect(try rig.row(4) == NotificationRow("sent", 1, accepted: 1))
            expectEachOnce(try rig.simulator.journal(), 4)
            #expect(worker.log.count(of: "failed") == 0, "\(worker.log)")
        }
    }

    @Test("F23: and of what is not, 200 times while a worker claims: what was cancelled in time is never sent")
    func whileClaiming() async throws {
        // Ten rows in a claim at most, so that some are in work and the others are not.
        try await Rig.run(simulator: ["--first-limit", "5", "--stream-limit", "5", "--latency-ms", "400"]) { rig in
            try rig.addDevices(1...200)
            try rig.addSingles(1...200)
            let worker = try rig.worker("--batch-size", "5", "--connections", "1")
            try await rig.simulator.wait(for: .accepted, atLeast: 10)
            // Some of it is written down, most not yet claimed.
            try await rig.eventually("SELECT count(*) >= 5 FROM scheduled_notifications WHERE status = 'sent'", is: "t")
            var said: [Int: String] = [:]
            for id in (1...200).shuffled() {
                said[id] = try rig.database.value("SELECT cancel_notification(\(id))")
            }
            try await rig.eventually(
                "SELECT count(*) FROM scheduled_notifications WHERE status NOT IN ('sent', 'cancelled')", is: "0")
            try await worker.stop()

            let journal = try rig.simulator.journal()
            for (id, answer) in said {
                let requests = journal.requests(for: DeviceTokens.plain(id))
                let row = try #require(try rig.row(id))
                switch answer {
                case "cancelled": #expect(requests.isEmpty && row == NotificationRow("cancelled"), "\(id) \(row)")
                case "cancelling":
                    let count = requests.count
                    #expect(count <= 1 && row == NotificationRow("cancelled", count, accepted: count), "\(id) \(row)")
                default:
                    #expect(answer == "already_sent", "\(id)")
                    #expect(requests.count == 1 && row == NotificationRow("sent", 1, accepted: 1), "\(id) \(row)")
                }
            }
            #expect(said.values.contains("cancelled") && said.values.contains("already_sent"))
        }
    }

    @Test("F23: ends a half-sent broadcast: no batch is begun after it, and the counts are those of the gateway")
    func halfSent() async throws {
        try await Rig.run(simulator: ["--first-limit", "5", "--stream-limit", "5", "--latency-ms", "200"]) { rig in
            try rig.addDevices(1...3000)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let worker = try rig.worker("--batch-size", "50")
            try await rig.simulator.wait(for: .accepted, atLeast: 200)
            let command = try rig.pgpush("cancel", "\(id)")
            #expect(command.status == 0 && command.output.contains("cancelling"), "\(command)")
            // How far the walk has come; what was begun and is handed back unsent gets a batch of its own.
            let walked = try rig.value("cursor_id", of: id)
            try await rig.status(of: id, is: "cancelled")
            try await worker.stop()

            #expect(try rig.value("cursor_id", of: id) == walked)
            let slices = "SELECT max(through_id)::text FROM notification_batches"
            #expect(try rig.database.value(slices) == walked)
            let journal = try rig.simulator.journal()
            expectEachOnce(journal, journal.requests.count)
            let row = try #require(try rig.row(id))
            #expect(row.counts[1...] == [journal.accepted.count, 0, 0] && journal.accepted.count < 3000)
            #expect(row.hasCancelTime && row.hasEndTime && !row.hasSentTime)
            let shown = try rig.pgpush("show", "\(id)")
            #expect(shown.status == 0 && shown.output.contains("cancelled"), "\(shown)")
        }
    }
}
