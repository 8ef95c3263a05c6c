// What these suites ask of a rig again and again.

import TestSupport
import Testing

extension Rig {
    /// Registers devices, one for each user `user-…`; `active` is an SQL condition over the number `i`.
    func addDevices(_ numbers: ClosedRange<Int>, active: String = "true") throws {
        try psql(
            """
            INSERT INTO devices (user_id, device_token, is_active)
            SELECT 'user-' || i, \(DeviceTokens.sql("i")), \(active)
            FROM generate_series(\(numbers.lowerBound), \(numbers.upperBound)) i
            """)
    }

    /// One field of a notification.
    func value(_ expression: String, of id: Int) throws -> String? {
        try database.value("SELECT \(expression) FROM scheduled_notifications WHERE id = \(id)")
    }

    /// The batches of a broadcast are done, have these sizes, and cover the audience without a hole.
    func expectWholeBatches(of id: Int, sizes: [Int], _ location: SourceLocation = #_sourceLocation) throws {
        let batches = try psql(
            """
            SELECT device_count, state, after_id, through_id, finished_at IS NOT NULL FROM notification_batches
            WHERE notification_id = \(id) ORDER BY batch_no
            """)
        #expect(batches.map { $0[0] } == sizes.map { "\($0)" }, sourceLocation: location)
        #expect(batches.allSatisfy { $0[1] == "done" && $0[4] == "t" }, sourceLocation: location)
        let ends = batches.map { $0[3] }
        #expect(batches.map { $0[2] } == ["0"] + ends.dropLast(), sourceLocation: location)
        #expect(ends.last == .some(try value("cursor_id", of: id)), sourceLocation: location)
    }
}
