// A configuration file for workers that serve several apps, each at a simulator of its own or at the same.

import Foundation
import TestSupport

/// Writes the file that PGPUSH_CONFIG names.
struct AppsFile {
    private var apps: [[String: String]] = []

    /// Adds an app with the credentials of a simulator, which must know its bundle id.
    mutating func add(_ name: String, at simulator: SimulatorProcess, _ more: [String: String] = [:]) {
        let variables = simulator.environment
        var app = ["name": name]
        app["bundle_id"] = variables["APNS_BUNDLE_ID"]
        app["key_path"] = variables["APNS_KEY_PATH"]
        app["key_id"] = variables["APNS_KEY_ID"]
        app["team_id"] = variables["APNS_TEAM_ID"]
        app["production_url"] = variables["APNS_PRODUCTION_URL"]
        app["sandbox_url"] = variables["APNS_SANDBOX_URL"]
        app["ca_path"] = variables["APNS_CA_PATH"]
        apps.append(app.merging(more) { $1 })
    }

    /// Writes it into a folder; returns what to change in the environment of a rig, whose own app is not meant any more.
    func write(in folder: String) throws -> [String: String] {
        let path = "\(folder)/apps.json"
        let text = try JSONSerialization.data(withJSONObject: ["apps": apps], options: [.prettyPrinted])
        try text.write(to: URL(fileURLWithPath: path))
        var variables = ["PGPUSH_CONFIG": path]
        for name in ["KEY_PATH", "KEY_ID", "TEAM_ID", "BUNDLE_ID", "PRODUCTION_URL", "SANDBOX_URL", "CA_PATH"] {
            variables["APNS_\(name)"] = ""
        }
        return variables
    }
}

extension Rig {
    /// Registers devices of an app, one for each user `app-number`; tokens are told apart by `offset`.
    func addDevices(of app: String, _ count: Int, offset: Int) throws {
        try psql(
            """
            INSERT INTO devices (app, user_id, device_token)
            SELECT '\(app)', '\(app)-' || i, \(DeviceTokens.sql("i + \(offset)")) FROM generate_series(1, \(count)) i
            """)
    }

    /// Inserts so many due singles of an app.
    func addSingles(of app: String, _ count: Int) throws {
        try psql(
            """
            INSERT INTO scheduled_notifications (app, user_id, body)
            SELECT '\(app)', '\(app)-' || i, 'one' FROM generate_series(1, \(count)) i
            """)
    }

    /// Waits until nothing of an app is unfinished.
    func finished(_ app: String, within limit: Duration) async throws {
        try await eventually(
            "SELECT count(*) FROM scheduled_notifications WHERE app = '\(app)' AND finished_at IS NULL", is: "0",
            within: limit)
    }
}
