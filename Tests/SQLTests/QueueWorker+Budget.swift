// How much of the tables a call may touch: what tests of plans go by, whatever the machine does besides.

import TestSupport
import Testing

extension QueueWorker {
    /// A call may read so many rows of tables, by whatever way, and touch so many blocks of tables and indexes.
    ///
    /// Rows alone do not show an index that is scanned past what matches, blocks alone not a walk over neighbours.
    @discardableResult
    func atMost<T>(
        _ rows: Int, _ blocks: Int, location: SourceLocation = #_sourceLocation, _ call: () throws -> T
    ) throws -> T {
        let before = try reads()
        let result = try call()
        let after = try reads()
        let (read, touched) = (after[0] - before[0], after[1] - before[1])
        #expect(read <= rows, "rows", sourceLocation: location)
        #expect(touched <= blocks, "blocks \(touched) rows \(read)", sourceLocation: location)
        return result
    }

    private func reads() throws -> [Int] {
        try session.run("SELECT pg_stat_force_next_flush()")
        let sums = try session.run(
            """
            SELECT (SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables),
                   (SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0)) FROM pg_statio_user_tables)
            """)
        return sums[0].map { $0.flatMap { Int($0) } ?? 0 }
    }
}
