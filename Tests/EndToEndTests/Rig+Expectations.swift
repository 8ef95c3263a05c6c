// What these suites ask of a rig again and again.

import TestSupport
import Testing

extension Rig {
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
