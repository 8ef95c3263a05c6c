// devices: registering, retiring and looking at devices.

package import Postgres

/// Which devices to list; nil leaves a criterion out.
package struct DeviceFilter: Sendable {
    package var app: String?
    package var userID: String?
    package var environment: String?
    package var isActive: Bool?
    /// Only ids above this one: the next page.
    package var above: Int64?
    package var limit = 50

    package init() {}
}

extension OperatorStore {
    /// Registers a device, or moves its token to its new owner; returns the device's id.
    package func register(_ arguments: NamedArguments) async throws(PostgresError) -> Int64 {
        let sql = "SELECT \(arguments.call("register_device", schema))"
        return try await session.query(arguments.parameters.statement(sql)).int64(0, 0)
    }

    /// Retires a user's device; false when there is no such device, or none that is active.
    package func unregister(_ arguments: NamedArguments) async throws(PostgresError) -> Bool {
        let sql = "SELECT \(arguments.call("unregister_device", schema))"
        return try await session.query(arguments.parameters.statement(sql)).bool(0, 0)
    }

    /// Lists devices in the order of their ids; page on by `above`.
    package func devices(_ filter: DeviceFilter) async throws(PostgresError) -> Report {
        var parameters = SQLParameters()
        var conditions = ["true"]
        if let app = filter.app { conditions.append("d.app = \(parameters.add(app))") }
        if let user = filter.userID { conditions.append("d.user_id = \(parameters.add(user))") }
        if let environment = filter.environment { conditions.append("d.environment = \(parameters.add(environment))") }
        if let isActive = filter.isActive { conditions.append(isActive ? "d.is_active" : "NOT d.is_active") }
        if let above = filter.above { conditions.append("d.id > \(parameters.add(above))") }
        return try await report(
            ReportQuery(
                columns: [
                    ReportColumn("id", .number), ReportColumn("app"), ReportColumn("user_id", .long),
                    ReportColumn("device_token", .long), ReportColumn("environment"), ReportColumn("platform"),
                    ReportColumn("is_active"), ReportColumn("registered_at", .time),
                    ReportColumn("deactivation_reason"),
                ],
                body: """
                    SELECT d.id, d.app, d.user_id, d.device_token, d.environment, d.platform, d.app_version,
                           d.os_version, d.locale, d.time_zone, d.is_active, d.registered_at, d.last_active_at,
                           d.deactivated_at, d.deactivation_reason
                      FROM @schema@.devices AS d WHERE \(conditions.joined(separator: " AND "))
                     ORDER BY d.id LIMIT \(parameters.add(Int64(filter.limit)))
                    """,
                parameters: parameters))
    }
}
