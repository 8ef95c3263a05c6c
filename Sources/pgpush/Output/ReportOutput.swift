// Reports on standard output: a table for people, a line of JSON for each row for programs.

import PushStore

extension Invocation {
    /// Prints the rows.
    func show(_ report: Report) {
        if wantsJSON {
            console.data(report.json)
        } else if !report.rows.isEmpty {
            console.data(Table.lines(report.columns, report.rows, width: console.width, style: console.style))
        }
    }

    /// Prints one page of rows; says how to see the next one when there may be one, and answers 3 when there are none.
    func showPage(_ report: Report, limit: Int, next option: String) -> ExitCode {
        show(report)
        if report.rows.isEmpty {
            console.note("nothing matches")
            return .nothingMatched
        }
        if report.rows.count == limit, let last = report.cell(limit - 1, "id") {
            console.note("there may be more: add \(option) \(last)")
        }
        return .done
    }

    /// The value of an option that must be given.
    func required(_ option: Option) throws(UsageError) -> String {
        guard let text = arguments.text(option), !text.isEmpty else { throw UsageError("\(option.dashed) is missing") }
        return text
    }
}
