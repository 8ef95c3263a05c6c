// list, show, why, stats: looking at what is there.

import PushStore

extension Verb {
    static let list = Verb(
        name: "list", summary: "lists notifications, the newest first",
        details: """
            A criterion is any TIME that enqueue takes. When there are more rows than --limit, a line on standard error
            says how to see the next ones.
            """,
        options: [.app, .statusFilter, .userFilter, .dueFrom, .dueUntil, .limit, .below, .schema, .json],
        examples: [
            Example("pgpush list", "the newest 50"),
            Example("pgpush list --status pending --due-until +1h", "what will be sent within the hour"),
            Example("pgpush list --status failed --json | jq .error", "why things failed"),
            Example("pgpush list --below 1200 --limit 200", "a page of older ones"),
        ]
    ) { call in
        var filter = NotificationFilter()
        filter.app = call.arguments.text(.app)
        filter.statuses = try call.arguments.choices(.statusFilter, Statuses.all)
        filter.userID = call.arguments.text(.userFilter)
        filter.from = try call.arguments.time(.dueFrom)?.moment
        filter.until = try call.arguments.time(.dueUntil)?.moment
        filter.below = try call.arguments.integer(.below, 1...Int.max).map(Int64.init)
        filter.limit = try call.arguments.integer(.limit, 1...10_000) ?? filter.limit
        let wanted = filter
        let report = try call.withStore { store in try await store.notifications(wanted) }
        return call.showPage(report, limit: wanted.limit, next: "--below")
    }

    static let show = Verb(
        name: "show", summary: "shows one notification with its content, state and counts", operands: "ID",
        operandCount: 1...1, options: [.schema, .json],
        examples: [
            Example("pgpush show 42", "what is set, a line each"),
            Example("pgpush show 42 --json | jq -r .payload", "the exact bytes that Apple gets"),
        ]
    ) { call in
        let id = try call.arguments.identifier(0)
        let report = try call.withStore { store in try await store.notification(id) }
        guard let row = report.rows.first else {
            throw CommandFailure(.nothingMatched, "there is no notification \(id)")
        }
        if call.wantsJSON {
            call.console.data(report.json)
        } else {
            let empty: Set<String?> = [nil, "{}"]
            let pairs = zip(report.columns, row).filter { !empty.contains($1) }.map { ($0.title, $1) }
            call.console.data(Table.pairs(pairs, style: call.console.style))
        }
        return .done
    }

    static let why = Verb(
        name: "why", summary: "tells device by device why a notification did or did not arrive", operands: "ID",
        operandCount: 1...1, options: [.userFilter, .limit, .schema, .json],
        examples: [
            Example("pgpush why 42 --user 7", "what happened to the devices of user 7"),
            Example("pgpush why 42 --limit 1000 --json", "the same for all devices, for a program"),
        ]
    ) { call in
        let id = try call.arguments.identifier(0)
        let user = call.arguments.text(.userFilter)
        let limit = try call.arguments.integer(.limit, 1...100_000) ?? 50
        let (found, report) = try call.withStore { store in
            (try await store.progress(id), try await store.delivery(id, userID: user, limit: limit))
        }
        guard let found else { throw CommandFailure(.nothingMatched, "there is no notification \(id)") }
        if report.rows.isEmpty {
            let whom = user.map { " to a device of user \($0)" } ?? ""
            let reason = found.error.map { ": \($0)" } ?? ""
            call.console.note("notification \(id) is \(found.status)\(reason); it was not addressed\(whom)")
            return .nothingMatched
        }
        call.show(report)
        return .done
    }
}

/// The states of a notification.
enum Statuses {
    static let all = ["pending", "sending", "sent", "failed", "skipped", "cancelling", "cancelled", "expired"]
}

extension Option {
    static let statusFilter = Option("status", letter: "s", value: "STATUS", repeats: true, "only with this status")
    static let userFilter = Option("user", letter: "u", value: "ID", "only for this user")
    static let dueFrom = Option("due-from", value: "TIME", "only due at this time or later")
    static let dueUntil = Option("due-until", value: "TIME", "only due before this time")
    static let limit = Option("limit", letter: "n", value: "N", "at most so many rows (50)")
    static let below = Option("below", value: "ID", "only ids below this one: the next page")
    static let above = Option("above", value: "ID", "only ids above this one: the next page")
}
