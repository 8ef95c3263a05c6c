// migrate: brings the database to this version.

import PushModel
import PushStore

extension Verb {
    static let migrate = Verb(
        name: "migrate", summary: "brings the database to this version; safe to run by several at once",
        details: """
            Needs PostgreSQL 15 or newer and a database in UTF8. Uses DATABASE_DIRECT_URL when that is set, else DATABASE_URL
            or the PG* variables. APNS_ENVIRONMENT, when set, becomes the default of devices.environment.
            An object of the same name that pgpush did not create is never touched: it is named and nothing is done.
            With --status nothing is changed; the exit code is 0 if the schema is up to date, 1 if not.
            """,
        options: [
            .schema, Option.roles, .status, .json,
        ],
        examples: [
            Example("pgpush migrate", "creates or updates everything in schema public"),
            Example(
                "pgpush migrate --schema push --roles",
                "in a schema of its own, with roles for producers, operators and workers"),
            Example("pgpush migrate --status", "what is done and what is missing"),
        ]
    ) { call in
        let settings = try call.databaseSettings()
        let environment = try PushSettings.defaultEnvironment(Settings(environment: call.environment))
        let connection = settings.directConnectionString ?? settings.connectionString
        let onlyLook = call.arguments.has(.status)
        let wantsRoles = call.arguments.has(.roles)
        let (outcome, status) = try call.withSession(connection, settings.schema) { session, loop in
            let migrator = Migrator(session: session, schema: settings.schema, loop: loop)
            let outcome =
                onlyLook
                ? nil : try await migrator.migrate(defaultEnvironment: environment?.rawValue, roles: wantsRoles)
            return (outcome, try await migrator.status())
        }
        guard let outcome else { return call.show(status) }
        call.show(outcome, settings.schema)
        return .done
    }
}

extension Invocation {
    fileprivate func show(_ outcome: MigrationOutcome, _ schema: SchemaName) {
        if wantsJSON {
            let object = JSON.object([
                ("schema", .string(schema.name)), ("from", .integer(Int64(outcome.from))),
                ("version", .integer(Int64(outcome.to))), ("applied", .array(outcome.applied.map(JSON.string))),
            ])
            console.data(object.line)
        } else if outcome.applied.isEmpty {
            console.note("schema \(schema) is at version \(outcome.to); functions and views are renewed")
        } else {
            for name in outcome.applied { console.note("done: \(name)") }
            console.note("schema \(schema) is at version \(outcome.to) (was \(outcome.from))")
        }
    }

    fileprivate func show(_ status: MigrationStatus) -> ExitCode {
        let isCurrent = status.missing.isEmpty && status.version == SchemaVersion.newest
        if wantsJSON {
            let steps = status.steps.map { step in
                JSON.object([
                    ("version", .integer(Int64(step.version))), ("name", .string(step.name)),
                    ("applied_at", .string(step.appliedAt)), ("applied_by", .string(step.appliedBy)),
                ])
            }
            let object = JSON.object([
                ("schema", .string(status.schema.name)), ("version", .integer(Int64(status.version))),
                ("newest", .integer(Int64(SchemaVersion.newest))),
                ("supported_from", .integer(Int64(SchemaVersion.supported.lowerBound))),
                ("current", .bool(isCurrent)), ("missing", .array(status.missing.map(JSON.string))),
                ("altered", .array(status.altered.map(JSON.string))), ("steps", .array(steps)),
            ])
            console.data(object.line)
        } else {
            let columns = [
                ReportColumn("version", .number), ReportColumn("name"), ReportColumn("applied_at"),
                ReportColumn("applied_by"),
            ]
            let done = status.steps.map { [String($0.version), $0.name, $0.appliedAt, $0.appliedBy] as [String?] }
            let missing = status.missing.map { [nil, $0, "missing", nil] as [String?] }
            console.data(Table.lines(columns, done + missing, width: console.width, style: console.style))
            for name in status.altered { console.note("\(name) was done from another text than this program's") }
            console.note(
                isCurrent
                    ? "schema \(status.schema) is up to date"
                    : "schema \(status.schema) has version \(status.version), this program makes \(SchemaVersion.newest)"
            )
        }
        return isCurrent ? .done : .failed
    }
}

extension Option {
    static let roles = Option("roles", "also create the roles pgpush_producer, _operator, _worker and _monitor")
    static let status = Option("status", "show what is done and what is missing, change nothing")
}
