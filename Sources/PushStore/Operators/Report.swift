// Rows for people and programs. PostgreSQL renders both forms: JSON by row_to_json, and a text for each cell; so times carry
// the zone of the database session, numbers keep all their digits, and nothing depends on DateStyle or on this process's zone.

import Postgres

/// A column of a report.
package struct ReportColumn: Sendable, Equatable {
    /// How the column is to be read and laid out.
    package enum Kind: Sendable {
        /// Short text, never cut.
        case text
        /// Right-aligned.
        case number
        /// A point in time, shown to the second with its offset from UTC.
        case time
        /// One of the words for states and results.
        case status
        /// Text of any length, cut where there is no room.
        case long
    }

    /// The column's name in the query, which is also its key in JSON.
    package let name: String
    package let kind: Kind

    package init(_ name: String, _ kind: Kind = .text) {
        self.name = name
        self.kind = kind
    }

    /// The heading: the name in words.
    package var title: String { name.replacing("_", with: " ") }

    /// The SQL for the cell, of type text.
    fileprivate var expression: String {
        kind == .time ? "to_char(r.\(name), 'YYYY-MM-DD HH24:MI:SSOF')" : "r.\(name)::text"
    }
}

/// The rows of a query in both forms.
package struct Report: Sendable {
    package let columns: [ReportColumn]
    /// A text for each column.
    package let rows: [[String?]]
    /// A JSON object for each row, with all that the query gave, not only the columns.
    package let json: [String]

    package init(columns: [ReportColumn], rows: [[String?]], json: [String]) {
        self.columns = columns
        self.rows = rows
        self.json = json
    }

    /// The cell of a row by the column's name; nil when it is null or there is no such row or column.
    package func cell(_ row: Int, _ name: String) -> String? {
        guard rows.indices.contains(row), let column = columns.firstIndex(where: { $0.name == name }) else {
            return nil
        }
        return rows[row][column]
    }
}

/// A query whose rows become a report.
struct ReportQuery: Sendable {
    let columns: [ReportColumn]
    /// A SELECT that names its columns; `@schema@` stands for the schema.
    let body: String
    var parameters = SQLParameters()

    /// The statement: JSON first, then a text for each column.
    func statement(_ schema: SchemaName) -> PostgresStatement {
        let cells = columns.map { ", " + $0.expression }.joined()
        return parameters.statement("SELECT row_to_json(r)::text\(cells) FROM (\(schema.sql(body))) AS r")
    }
}
