import APNs
import HTTP2
import PushModel
package import PushStore
import Reactor
import Telemetry

package struct AppRoute: Sendable {
    package let served: ServedApp
    var name: String { served.name }
    func setClock(databaseMicroseconds: Int64) {}
    struct Lane {
        func close() {}
        func unit(_ work: WorkUnit, _ parts: [UnitDevices], claimed: MonotonicTime, lease: LeaseClock) -> UnitInWork {
            UnitInWork(work: work, devices: parts, claimed: claimed, lease: lease, topic: "", pathPrefix: "/3/device/")
            { _ in HTTP2RequestHead() }
        }
    }
    func open(on loop: EventLoop, stage: SendStage, connections: Int, _ settings: LaneSettings, _ logger: Logger)
        -> Lane
    { Lane() }
}
