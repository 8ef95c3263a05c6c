// The operators' way to the database: what the verbs of the command line ask of it, one file for each verb. Everything goes
// through the public functions and views of the schema, so an operator with psql has the same powers.

package import Postgres

/// One connection for a command line verb; used on the loop of its session only.
package final class OperatorStore {
    let session: PostgresSession
    let schema: SchemaName

    /// Takes over nothing: the session stays its maker's to close.
    package init(session: PostgresSession, schema: SchemaName) {
        self.session = session
        self.schema = schema
    }

    /// Runs a query and returns its rows for people and programs.
    func report(
        _ query: ReportQuery, statementTimeout: Duration = .seconds(15)
    ) async throws(PostgresError) -> Report {
        let result = try await session.query(query.statement(schema), statementTimeout: statementTimeout)
        var rows: [[String?]] = []
        var json: [String] = []
        for row in 0..<result.rows {
            json.append(try result.string(row, 0))
            var cells: [String?] = []
            for column in query.columns.indices { cells.append(try result.stringIfPresent(row, column + 1)) }
            rows.append(cells)
        }
        return Report(columns: query.columns, rows: rows, json: json)
    }
}
