// What doctor makes of what it found in the database; pure.

import PushModel
import PushStore
import Reactor

/// The checks that concern the database.
struct DatabaseChecks {
    let found: Examination
    /// What APNS_ENVIRONMENT says.
    let wantedEnvironment: PushEnvironment?

    var all: [Check] {
        [server, schema] + (found.status.version > 0 ? [roles] + environment : []) + [clock] + pauses
    }

    private var server: Check {
        let who = "\(found.database) on PostgreSQL \(found.serverText) as \(found.user)"
        if found.status.serverVersion < 150_000 {
            return .fail("database", who, remedy: "pgpush needs PostgreSQL 15 or newer", .configuration)
        }
        if found.status.encoding != "UTF8" {
            return .fail(
                "database", "\(who), encoding \(found.status.encoding)", remedy: "pgpush needs a database in UTF8",
                .configuration)
        }
        if found.status.isReadOnly {
            return .fail("database", "\(who), which is a standby", remedy: "name the primary", .configuration)
        }
        let milliseconds = Double(found.roundTrip.wholeNanoseconds) / 1e6
        let time = "answers in \(Numbers.rate(milliseconds)) ms"
        if milliseconds > 50 {
            return .warn("database", "\(who), \(time)", remedy: "run the worker nearer to the database: it asks often")
        }
        return .ok("database", "\(who), \(time)")
    }

    private var schema: Check {
        let status = found.status
        let supported = SchemaVersion.supported
        let where_ = "schema \(status.schema)"
        if status.version == 0 {
            return .fail(
                "schema", "\(where_) holds no pgpush", remedy: "run 'pgpush migrate', or name the schema by --schema",
                .configuration)
        }
        if status.version < supported.lowerBound {
            return .fail(
                "schema", "\(where_) has version \(status.version), this program needs \(supported.lowerBound)",
                remedy: "run 'pgpush migrate'", .configuration)
        }
        if status.version > supported.upperBound {
            return .fail(
                "schema", "\(where_) has version \(status.version), this program knows up to \(supported.upperBound)",
                remedy: "use a newer pgpush", .configuration)
        }
        if !status.altered.isEmpty {
            return .warn(
                "schema", "\(where_): \(status.altered.joined(separator: ", ")) was done from another text",
                remedy: "find out which build of pgpush migrated this database")
        }
        if status.version < supported.upperBound {
            return .warn(
                "schema", "\(where_) has version \(status.version), this program makes \(supported.upperBound)",
                remedy: "run 'pgpush migrate' once all workers are upgraded")
        }
        return .ok("schema", "\(where_) has version \(status.version)")
    }

    private var roles: Check {
        if !found.forbidden.isEmpty {
            return .fail(
                "roles", "\(found.user) may not execute \(found.forbidden.joined(separator: ", "))",
                remedy: "run 'pgpush migrate --roles', then GRANT pgpush_worker TO \(found.user)", .configuration)
        }
        let made = found.roles.isEmpty ? "no roles are made" : found.roles.joined(separator: ", ")
        return .ok("roles", "\(found.user) may run a worker; \(made)")
    }

    private var environment: [Check] {
        guard let present = found.defaultEnvironment else { return [] }
        guard let wanted = wantedEnvironment?.rawValue, wanted != present else {
            return [.ok("environment", "devices registered without an environment are \(present)")]
        }
        return [
            .warn(
                "environment",
                "devices registered without an environment are \(present), APNS_ENVIRONMENT says \(wanted)",
                remedy: "run 'pgpush migrate' with the APNS_ENVIRONMENT that is meant")
        ]
    }

    private var clock: Check {
        let skew = abs(found.clockSkew)
        let side = found.clockSkew > 0 ? "ahead of" : "behind"
        let text = "the database's clock is \(Numbers.rate(skew)) s \(side) this machine's"
        if skew < 2 { return .ok("clock", "the clocks of database and this machine agree") }
        let remedy = "set both by NTP; the database's clock decides what is due and dates the tokens that Apple checks"
        return skew < 300 ? .warn("clock", text, remedy: remedy) : .fail("clock", text, remedy: remedy, .configuration)
    }

    private var pauses: [Check] {
        if found.pauses == 0 { return [] }
        let text = found.pauses == 1 ? "one scope is paused" : "\(found.pauses) scopes are paused"
        return [.warn("pauses", text, remedy: "see 'pgpush apps list'")]
    }
}
