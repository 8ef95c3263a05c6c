// Answers that ask for another try, and requests without an answer. Nobody waits here for the time of the next try: it is moved.

import Foundation
import TestSupport
import Testing

@Suite("A push that did not get through") struct Retries {
    private func register(_ user: String, _ tokens: [String], _ rig: Rig) throws {
        for token in tokens {
            try rig.psql("INSERT INTO devices (user_id, device_token) VALUES ('\(user)', '\(token)')")
        }
    }

    @Test("for want of capacity is tried again later with the same ids, and accepted then")
    func laterAttempt() async throws {
        try await Rig.run { rig in
            try rig.holdRetries()
            let tokens = ["0429", "0503", "0500"].map { DeviceTokens.magic($0) }
            try register("anna", tokens + [DeviceTokens.plain(1)], rig)
            let id = try rig.insert("user_id, body", "'anna', 'x'")
            try await rig.drain()

            #expect(try rig.value("status", of: id) == "sending")
            let ledger = "SELECT device_token, http_status, reason, attempt, is_final FROM delivery_failures ORDER BY 1"
            let first = try rig.psql(ledger)
            #expect(
                first == [
                    [DeviceTokens.magic("0429"), "429", "TooManyRequests", "1", "f"],
                    [DeviceTokens.magic("0500"), "500", "InternalServerError", "1", "f"],
                    [DeviceTokens.magic("0503"), "503", "ServiceUnavailable", "1", "f"],
                ])
            // Not due yet: nothing happens.
            try await rig.drain()
            #expect(try rig.simulator.journal().requests.count == 4)

            try rig.makeRetriesDue()
            try await rig.drain()
            let journal = try rig.simulator.journal()
            for token in tokens {
                let requests = journal.requests(for: token)
                #expect(requests.map(\.isAccepted) == [false, true])
                #expect(Set(requests.map(\.apnsId)).count == 1)
                #expect(Set(requests.map(\.body)).count == 1)
            }
            #expect(journal.requests(for: DeviceTokens.plain(1)).count == 1)
            #expect(try rig.row(id) == NotificationRow("sent", 4, accepted: 4))
            // What was not the last word stays in the ledger as what it was.
            #expect(try rig.psql(ledger) == first)
            #expect(try rig.database.number("SELECT count(*) FROM devices WHERE NOT is_active") == 0)
        }
    }

    @Test("waits as long as its kind of answer asks for")
    func waits() async throws {
        try await Rig.run { rig in
            try rig.holdRetries()
            let waits = ["0429": 30...60, "2429": 30...60, "0503": 5...30, "3503": 5...30, "0500": 5...30]
            for choice in waits.keys {
                try register(choice, [DeviceTokens.magic(choice)], rig)
                try rig.insert("user_id, body", "'\(choice)', 'x'")
            }
            try await rig.drain()
            for (choice, seconds) in waits {
                let wait = try rig.database.value(
                    """
                    SELECT extract(epoch FROM b.not_before - interval '1 hour' - b.created_at)
                    FROM notification_batches b JOIN scheduled_notifications n ON n.id = b.notification_id
                    WHERE n.user_id = '\(choice)' AND b.state = 'ready' AND b.attempts = 2 AND cardinality(b.device_ids) = 1
                    """)
                let found = try #require(wait.flatMap { Double($0) })
                #expect(found >= Double(seconds.lowerBound) && found <= Double(seconds.upperBound) + 1, "\(choice)")
            }
        }
    }

    @Test("is given up after eight attempts, and only the last of them is final")
    func givenUp() async throws {
        try await Rig.run { rig in
            try rig.holdRetries()
            try register("anna", [DeviceTokens.magic("1429")], rig)
            let id = try rig.insert("user_id, body", "'anna', 'x'")
            for attempt in 1...8 {
                #expect(try rig.value("status", of: id) == (attempt == 1 ? "pending" : "sending"))
                try rig.makeRetriesDue()
                try await rig.drain()
            }
            #expect(try rig.row(id) == NotificationRow("failed", 1, rejected: 1, error: "TooManyRequests"))
            let ledger = try rig.psql("SELECT attempt, is_final FROM delivery_failures ORDER BY attempt")
            #expect(ledger == (1...8).map { ["\($0)", $0 == 8 ? "t" : "f"] })
            let requests = try rig.simulator.journal().requests
            #expect(requests.count == 8 && Set(requests.map(\.apnsId)).count == 1)
        }
    }

    @Test("is not tried beyond the end of the notification")
    func notBeyondTheEnd() async throws {
        try await Rig.run { rig in
            try register("anna", [DeviceTokens.magic("1429")], rig)
            let id = try rig.insert("user_id, body, expires_at", "'anna', 'x', now() + interval '29 s'")
            try await rig.drain()
            // The next try would be in 30 s at the earliest.
            #expect(try rig.row(id) == NotificationRow("failed", 1, rejected: 1, error: "TooManyRequests"))
            #expect(try rig.psql("SELECT attempt, is_final FROM delivery_failures") == [["1", "t"]])
        }
    }

    @Test("and certainly was not processed goes again at once, and nobody hears of it")
    func refusedStreams() async throws {
        try await Rig.run { rig in
            let tokens = ["02bb", "02cc"].map { DeviceTokens.magic($0) }
            try register("anna", tokens, rig)
            let id = try rig.insert("user_id, body", "'anna', 'x'")
            try await rig.drain()
            let journal = try rig.simulator.journal()
            for token in tokens { #expect(journal.requests(for: token).map(\.isAccepted) == [false, true]) }
            #expect(try rig.row(id) == NotificationRow("sent", 2, accepted: 2))
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)
        }
    }

    @Test("as far as anybody knows is repeated with the same id, unless it may arrive at most once")
    func unknownOutcome() async throws {
        try await Rig.run { rig in
            try rig.holdRetries()
            // The stream is reset, the connection is reset, the connection ends, the answer breaks off.
            let choices = ["01bb", "00cc", "01cc", "05bb"]
            let least = choices.map { DeviceTokens.magic($0, 1) }
            let most = choices.map { DeviceTokens.magic($0, 2) }
            for token in least + most { try register(token, [token], rig) }
            var (repeated, booked): ([Int], [Int]) = ([], [])
            // One after the other, since a connection that is lost takes all its requests with it.
            for (one, other) in zip(least, most) {
                repeated.append(try rig.insert("user_id, body", "'\(one)', 'x'"))
                try await rig.drain()
                booked.append(try rig.insert("user_id, body, delivery", "'\(other)', 'x', 'at_most_once'"))
                try await rig.drain()
            }
            try rig.makeRetriesDue()
            try await rig.drain()

            let journal = try rig.simulator.journal()
            for (id, token) in zip(booked, most) {
                #expect(journal.requests(for: token).count == 1, "\(token)")
                #expect(try rig.row(id) == NotificationRow("failed", 1, unknown: 1, error: "ConnectionLost"))
                let ledger = try rig.psql(
                    "SELECT http_status, reason, attempt, is_final FROM delivery_failures WHERE notification_id = \(id)"
                )
                #expect(ledger == [[nil, "ConnectionLost", "1", "t"]])
            }
            for (id, token) in zip(repeated, least) {
                let requests = journal.requests(for: token)
                #expect(requests.count == 2 && Set(requests.map(\.apnsId)).count == 1, "\(token)")
                #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
                let ledger = try rig.psql(
                    "SELECT reason, attempt, is_final FROM delivery_failures WHERE notification_id = \(id)")
                #expect(ledger == [["ConnectionLost", "1", "f"]])
            }
        }
    }

    @Test("because nobody answered is given up waiting for after 15 s, and treated alike")
    func unanswered() async throws {
        try await Rig.run { rig in
            try rig.holdRetries()
            let tokens = [DeviceTokens.magic("01aa", 1), DeviceTokens.magic("01aa", 2)]
            for token in tokens { try register(token, [token], rig) }
            let least = try rig.insert("user_id, body", "'\(tokens[0])', 'x'")
            let most = try rig.insert("user_id, body, delivery", "'\(tokens[1])', 'x', 'at_most_once'")
            try await rig.drain()
            #expect(try rig.row(most) == NotificationRow("failed", 1, unknown: 1, error: "NoAnswer"))
            #expect(try rig.value("status", of: least) == "sending")
            try rig.makeRetriesDue()
            try await rig.drain()
            #expect(try rig.row(least) == NotificationRow("sent", 1, accepted: 1))
            let journal = try rig.simulator.journal()
            #expect(journal.requests(for: tokens[0]).map(\.isAccepted) == [false, true])
            #expect(journal.requests(for: tokens[1]).map(\.isAccepted) == [false])
            let ledger = try rig.psql(
                "SELECT notification_id, http_status, reason, is_final FROM delivery_failures ORDER BY notification_id")
            #expect(ledger == [["\(least)", nil, "NoAnswer", "f"], ["\(most)", nil, "NoAnswer", "t"]])
        }
    }
}
