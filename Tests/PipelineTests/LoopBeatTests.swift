// /healthz: loops that turn, and one that stands still.

import Dispatch
import Reactor
import Telemetry
import Testing

@testable import Pipeline

@Suite("The beat of a loop") struct LoopBeatTests {
    @Test("stands still for as many looks as found it unchanged")
    func looks() {
        var watch = LoopWatch()
        watch.look(0)
        #expect(watch.still == 1)
        watch.look(3)
        #expect(watch.still == 0)
        for _ in 0..<5 { watch.look(3) }
        #expect(watch.still == 5)
        watch.look(4)
        #expect(watch.still == 0)
    }

    @Test("is missed by /healthz when the loop stands still, and only then")
    func stalled() throws {
        let metrics = WorkerMetrics(version: "test", beats: LoopBeats(interval: .milliseconds(5)))
        let (good, bad) = (try EventLoop(name: "lane-0"), try EventLoop(name: "lane-1"))
        for loop in [good, bad] {
            try loop.start()
            metrics.beats.watch(loop)
        }
        defer {
            for loop in [good, bad] {
                loop.stop()
                loop.join()
            }
        }
        try look(metrics, on: good) { $0.allSatisfy { $0.looks == 0 } }
        #expect(metrics.stalledLoops.isEmpty)

        // One stands in the middle of a turn, until this test lets it go on.
        let mayGoOn = DispatchSemaphore(value: 0)
        bad.execute { mayGoOn.wait() }
        try look(metrics, on: good) { $0.contains { $0.looks >= 25 } }
        #expect(metrics.stalledLoops == ["lane-1: the loop stands still"])
        let series = "\npgpush_loop_stalled_seconds{loop=\"lane-1\"} "
        #expect(metrics.registry.prometheusText().contains(series + "2"))

        mayGoOn.signal()
        try look(metrics, on: good) { $0.allSatisfy { $0.looks == 0 } }
        #expect(metrics.stalledLoops.isEmpty)
        metrics.beats.forget()
        #expect(metrics.beats.still.isEmpty)
    }

    /// Looks until it is as wanted.
    ///
    /// Each look comes when the good loop has waited for longer than its beat takes, however slow the
    /// machine is, so that loop never misses one.
    private func look(
        _ metrics: WorkerMetrics, on good: EventLoop, until isMet: ([(name: String, looks: Int)]) -> Bool
    ) throws {
        for _ in 0..<5000 {
            metrics.beats.look()
            if isMet(metrics.beats.still) { return }
            try good.runBlocking { _ in
                await withCheckedContinuation { continuation in
                    good.schedule(after: .milliseconds(10)) { continuation.resume() }
                }
            }
        }
        Issue.record("never: \(metrics.beats.still)")
    }
}
