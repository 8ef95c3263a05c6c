// What nearly every end-to-end test asks of a rig: an audience, and a look at a notification.

extension Rig {
    /// Registers devices, one for each user `user-…`; `active` is an SQL condition over the number `i`.
    package func addDevices(_ numbers: ClosedRange<Int>, active: String = "true") throws {
        try psql(
            """
            INSERT INTO devices (user_id, device_token, is_active)
            SELECT 'user-' || i, \(DeviceTokens.sql("i")), \(active)
            FROM generate_series(\(numbers.lowerBound), \(numbers.upperBound)) i
            """)
    }

    /// One field of a notification.
    package func value(_ expression: String, of id: Int) throws -> String? {
        try database.value("SELECT \(expression) FROM scheduled_notifications WHERE id = \(id)")
    }
}
