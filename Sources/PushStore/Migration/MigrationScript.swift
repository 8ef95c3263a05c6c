// What one step of a migration does, as text: the SQL of the step between a prologue that takes the lock and looks round, and an
// epilogue that records it. Pure, so that it can be tested without a database.
//
//     one simple query = one implicit transaction
//     ┌──────────────────────────────────────────────────────────────────────────────┐
//     │ lock (advisory, of the transaction) → guard → search_path → the step → record │
//     └──────────────────────────────────────────────────────────────────────────────┘
//
// The guard ends the transaction with a SQLSTATE of its own when the step is done already, which is how several migrations at
// once stay safe: they wait for one another and then find nothing left to do. An advisory lock of the session would not do: behind
// a pooler in transaction mode it would belong to somebody else.

import Schema

/// The SQLSTATEs with which a guard ends a step.
enum MigrationGuard {
    /// Somebody has run the step meanwhile.
    static let alreadyDone = "PNM01"
    /// The database was migrated by a newer version.
    static let tooNew = "PNM02"
    /// There is an object of that name which pgpush did not create.
    static let foreignObject = "PNM03"
}

/// One step of a migration.
struct MigrationScript {
    /// How often a step runs, and the version under which it is recorded.
    enum Kind: Equatable {
        /// A numbered migration: once.
        case numbered(Int)
        /// All re-creatable objects together: each time, recorded as version 0.
        case objects
        /// Roles belong to all databases of a server and stay outside the record.
        case roles
    }

    let kind: Kind
    let name: String
    let text: String

    /// The number of a numbered migration.
    var number: Int? {
        if case .numbered(let number) = kind { number } else { nil }
    }

    /// Detects that a recorded step came from another text.
    var checksum: String { Checksum.of(text) }

    /// The names of what the step creates, without triggers and constraints, which belong to a table.
    var objects: [CreatedObject] { CreatedObject.all(in: text) }

    /// The whole transaction; `reserved` are the names that must be free or ours before anything is done.
    func transaction(in schema: SchemaName, newest: Int, reserved: [CreatedObject]) -> String {
        """
        SET LOCAL lock_timeout = '120s';
        SET LOCAL statement_timeout = '150s';
        SELECT pg_advisory_xact_lock(hashtextextended('pgpush migrate ' || \(schema.literal), 0));
        SET LOCAL lock_timeout = '5s';
        SET LOCAL statement_timeout = '600s';
        \(guardBlock(schema, newest, reserved))
        SET LOCAL search_path = \(schema.quoted), pg_temp;
        SET LOCAL check_function_bodies = off;
        \(schema.sql(text))
        \(record(schema))
        """
    }

    private func guardBlock(_ schema: SchemaName, _ newest: Int, _ reserved: [CreatedObject]) -> String {
        let table = "\(schema.quoted).pgpush_migrations"
        func names(_ kind: CreatedObject.Kind) -> String {
            let list = reserved.filter { $0.kind == kind }.map { "'\($0.name)'" }.joined(separator: ", ")
            return "ARRAY[\(list)]::text[]"
        }
        let isDone = number.map { "EXISTS (SELECT FROM \(table) WHERE version = \($0))" } ?? "false"
        return """
            DO $guard$
            DECLARE
                known text[] := '{}';
                strange text;
                found integer;
            BEGIN
                IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = \(schema.literal)) THEN
                    CREATE SCHEMA \(schema.quoted);
                END IF;
                IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(\(schema.literal(of: table)))
                           AND attname = 'objects' AND NOT attisdropped) THEN
                    IF \(isDone) THEN
                        RAISE EXCEPTION 'done already' USING ERRCODE = '\(MigrationGuard.alreadyDone)';
                    END IF;
                    SELECT max(version) INTO found FROM \(table);
                    IF found > \(newest) THEN
                        RAISE EXCEPTION 'the schema has version %, this program knows up to \(newest)', found
                            USING ERRCODE = '\(MigrationGuard.tooNew)';
                    END IF;
                    SELECT coalesce(array_agg(o), '{}') INTO known FROM \(table), unnest(objects) AS o;
                END IF;
                SELECT string_agg(f.kind || ' ' || f.name, ', ' ORDER BY f.name) INTO strange
                FROM (SELECT DISTINCT 'function' AS kind, p.proname::text AS name FROM pg_proc AS p
                      WHERE p.pronamespace = \(schema.literal)::regnamespace AND p.proname = ANY (\(names(.function)))
                      UNION ALL
                      SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
                                            WHEN 'i' THEN 'index' WHEN 'c' THEN 'type' WHEN 'f' THEN 'foreign table'
                                            ELSE 'table' END, c.relname
                      FROM pg_class AS c
                      WHERE c.relnamespace = \(schema.literal)::regnamespace AND c.relname = ANY (\(names(.relation)))
                      UNION ALL
                      SELECT 'type', t.typname FROM pg_type AS t
                      WHERE t.typnamespace = \(schema.literal)::regnamespace AND t.typrelid = 0
                        AND t.typname = ANY (\(names(.relation)))) AS f
                WHERE f.name <> ALL (known);
                IF strange IS NOT NULL THEN
                    RAISE EXCEPTION '%', strange USING ERRCODE = '\(MigrationGuard.foreignObject)';
                END IF;
            END
            $guard$;
            """
    }

    private func record(_ schema: SchemaName) -> String {
        if kind == .roles { return "" }
        let created = "ARRAY[\(objects.map { "'\($0.name)'" }.joined(separator: ", "))]::text[]"
        // The names of objects that a newer text no longer creates stay known, so that they are still ours.
        return """
            INSERT INTO \(schema.quoted).pgpush_migrations AS m (version, name, checksum, objects)
            VALUES (\(number ?? 0), '\(name)', '\(checksum)', \(created))
            ON CONFLICT (version) DO UPDATE
            SET checksum = excluded.checksum, applied_at = excluded.applied_at, applied_by = excluded.applied_by,
                objects = ARRAY(SELECT DISTINCT o FROM unnest(m.objects || excluded.objects) AS o ORDER BY o);
            """
    }
}

extension SchemaName {
    /// The plain name as a string constant; it holds no quote.
    var literal: String { "'\(name)'" }

    /// A text made of the quoted name as a string constant.
    fileprivate func literal(of text: String) -> String { "'\(text)'" }
}

/// Something a script creates in the schema.
struct CreatedObject: Hashable {
    enum Kind {
        case function
        /// Tables, views, indexes, sequences and types share one space of names.
        case relation
    }

    let kind: Kind
    let name: String

    /// Finds the CREATE commands of a script; each begins at the start of a line, which nothing in a function's body does.
    static func all(in script: String) -> [CreatedObject] {
        var found: [CreatedObject] = []
        for line in script.split(separator: "\n") where line.hasPrefix("CREATE ") {
            var words = line.split(whereSeparator: { $0 == " " || $0 == "(" || $0 == ";" }).dropFirst()
            for ignored in ["OR", "REPLACE", "UNIQUE", "UNLOGGED"] where words.first.map(String.init) == ignored {
                words = words.dropFirst()
            }
            guard let kind = words.popFirst().flatMap({ kinds[String($0)] }), let name = words.first else { continue }
            let object = CreatedObject(kind: kind, name: String(name))
            if !found.contains(object) { found.append(object) }
        }
        return found
    }

    private static let kinds: [String: Kind] = [
        "FUNCTION": .function, "PROCEDURE": .function, "TABLE": .relation, "VIEW": .relation, "INDEX": .relation,
        "SEQUENCE": .relation, "TYPE": .relation, "DOMAIN": .relation,
    ]
}

/// A short fingerprint of a text (FNV-1a, 64 bits): it notices accidents, not attacks.
enum Checksum {
    static func of(_ text: String) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        let digits = String(hash, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
