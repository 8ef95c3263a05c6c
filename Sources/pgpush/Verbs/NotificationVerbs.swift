// cancel, reschedule, retry: what can be done to a notification that is there.

import PushStore

extension Verb {
    static let cancel = Verb(
        name: "cancel", summary: "cancels notifications", operands: "ID...", operandCount: 1...10_000,
        details: """
            'cancelled' means that nothing was or will be sent; 'cancelling' that devices were reached already and that no
            further ones will be. Exit code 0 if all are cancelled, 1 if one was finished, 3 if one is not known.
            """,
        options: [.actor, .schema, .json],
        examples: [
            Example("pgpush cancel 42", "cancels one"),
            Example("pgpush cancel 42 43 --actor 'ana (wrong text)'", "cancels two and says who and why"),
        ]
    ) { call in
        let ids = try call.arguments.operands.indices.map { try call.arguments.identifier($0) }
        let actor = call.arguments.text(.actor)
        let report = try call.withStore { store in try await store.cancel(ids, actor: actor) }
        call.show(report)
        let results = report.rows.indices.map { report.cell($0, "result") ?? "" }
        if results.contains(where: { $0.hasPrefix("already_") && $0 != "already_cancelled" }) { return .failed }
        return results.contains("not_found") ? .nothingMatched : .done
    }

    static let reschedule = Verb(
        name: "reschedule", summary: "moves the due time of a pending notification", operands: "ID TIME",
        operandCount: 2...2, details: "TIME is \(TimeArgument.forms).", options: [.schema, .json],
        examples: [
            Example("pgpush reschedule 42 2026-03-08T09:30:00+01:00", "to a point in time"),
            Example("pgpush reschedule 42 +1h", "to an hour from now"),
            Example("pgpush reschedule 42 now", "sends it at once"),
        ]
    ) { call in
        let id = try call.arguments.identifier(0)
        let time = try TimeArgument(call.arguments.operands[1], for: "TIME")
        let report = try call.withStore { store in try await store.reschedule(id, to: time.moment) }
        let result = report.cell(0, "result") ?? ""
        switch result {
        case "rescheduled":
            call.show(report)
            return .done
        case "not_found":
            throw CommandFailure(.nothingMatched, "there is no notification \(id)")
        default:
            throw CommandFailure(.failed, "notification \(id) is \(result); only a pending one can be moved")
        }
    }

    static let retry = Verb(
        name: "retry", summary: "sends a finished notification again to the devices it did not reach", operands: "ID",
        operandCount: 1...1,
        details: "Devices that accepted it are left alone. Prints how many devices are queued again.",
        options: [.schema, .json],
        examples: [Example("pgpush retry 42", "tries the rejected, unknown and unreached devices once more")]
    ) { call in
        let id = try call.arguments.identifier(0)
        let report = try call.withStore { store in
            try await store.progress(id) == nil ? nil : try await store.retry(id)
        }
        guard let report else { throw CommandFailure(.nothingMatched, "there is no notification \(id)") }
        call.show(report)
        return report.cell(0, "devices") == "0" ? .nothingMatched : .done
    }
}

extension Option {
    static let actor = Option("actor", value: "NAME", "who cancels, for the record (the database user)")
}
