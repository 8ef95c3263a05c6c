// stats: what the queue looks like as a whole.

import PushStore

extension Verb {
    static let stats = Verb(
        name: "stats", summary: "shows totals, what is due and since when, workers, and reasons of the last day",
        options: [.schema, .json],
        examples: [
            Example("pgpush stats", "tables for people"),
            Example("pgpush stats --json | jq '.queue[] | select(.due > 0)'", "one object for programs"),
        ]
    ) { call in
        let parts = try call.withStore { store in try await store.statistics() }
        if call.wantsJSON {
            let object = JSON.object(parts.map { ($0.name, .array($0.report.json.map(JSON.raw))) })
            call.console.data(object.line)
            return .done
        }
        for (index, part) in parts.enumerated() {
            if index > 0 { call.console.data("") }
            call.console.data(call.console.style.paint(part.title, .bold))
            call.console.data(
                part.report.rows.isEmpty
                    ? ["  none"]
                    : Table.lines(
                        part.report.columns, part.report.rows, width: call.console.width, style: call.console.style))
        }
        return .done
    }
}
