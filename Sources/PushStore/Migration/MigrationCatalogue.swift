// The steps that are embedded in this program.

import Schema

extension MigrationScript {
    /// The numbered migrations, in order; the number is the one in the file's name (`m0001_devices.sql`).
    static let migrations: [MigrationScript] = Schema.migrations.map { file in
        let number = Int(file.name.dropFirst().prefix { $0.isNumber }) ?? 0
        return MigrationScript(kind: .numbered(number), name: file.name, text: file.text)
    }

    /// All re-creatable objects as one step.
    static func objects(defaultEnvironment: String?) -> MigrationScript {
        var text = Schema.objects.map { "-- \($0.name)\n\($0.text)" }.joined(separator: "\n")
        if let defaultEnvironment { text += "\n" + environmentDefault(defaultEnvironment) }
        return MigrationScript(kind: .objects, name: "objects", text: text)
    }

    /// All that the steps create: a database in which one of these names is taken is refused before the first step.
    static let allObjects = (migrations + [objects(defaultEnvironment: nil)]).flatMap(\.objects)

    /// The roles and what they may do.
    static let roles = MigrationScript(
        kind: .roles, name: "roles", text: Schema.roles.map(\.text).joined(separator: "\n"))

    /// Changes the default only where it differs: the change locks the table for a moment.
    private static func environmentDefault(_ environment: String) -> String {
        """
        DO $$
        BEGIN
            IF pgpush_default_environment() <> '\(environment)' THEN
                ALTER TABLE devices ALTER COLUMN environment SET DEFAULT '\(environment)';
            END IF;
        END
        $$;
        """
    }
}
