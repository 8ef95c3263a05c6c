// The way to Apple for one app: its credential, its hosts, and on each lane a pool for each environment.

package import APNs
package import HTTP2
package import PushModel
package import PushStore
import Reactor
package import TLS
import Telemetry

/// One of Apple's two services as an app gets there.
///
/// Ways with the same parts are one: they share connections.
package struct AppWay: Sendable {
    /// Where the gateway is.
    package let endpoint: APNsEndpoint
    /// The way out, where there is no direct one.
    package let proxy: HTTPProxy?
    /// Who is trusted, and the client certificate if there is one.
    package let tls: TLSClientContext
    /// The provider token, one for all lanes; nil with a certificate.
    package let token: ProviderToken?
    /// The certificate that `tls` shows; nil with a token.
    package let certificate: APNsCertificate?

    package init(
        endpoint: APNsEndpoint, proxy: HTTPProxy? = nil, tls: TLSClientContext, token: ProviderToken?,
        certificate: APNsCertificate? = nil
    ) {
        self.endpoint = endpoint
        self.proxy = proxy
        self.tls = tls
        self.token = token
        self.certificate = certificate
    }
}

/// An app with what is needed to send for it; shared by all lanes.
package struct AppRoute: Sendable {
    /// The app as the queue knows it.
    package let served: ServedApp
    /// The way to each environment for which there is a credential.
    package let ways: [PushEnvironment: AppWay]
    /// The way of pushes to channels, where it leads to another host than that of pushes to devices.
    package let channelWays: [PushEnvironment: AppWay]
    /// The app's bundle id: its topic, but for the suffixes of the push types.
    package let bundleID: String

    /// Describes the way to Apple for one app.
    package init(
        served: ServedApp, ways: [PushEnvironment: AppWay], channelWays: [PushEnvironment: AppWay] = [:],
        bundleID: String
    ) {
        self.served = served
        self.ways = ways
        self.channelWays = channelWays
        self.bundleID = bundleID
    }

    /// Opens the way on one lane, or takes it in the place of the one that is open; nothing is connected before the first push.
    func open(over gateways: Gateways, stage: SendStage, _ settings: LaneSettings, _ logger: Logger) -> OpenRoute {
        for target in FeedKey.Target.allCases {
            for environment in PushEnvironment.allCases {
                let way = target == .devices ? ways[environment] : channelWays[environment]
                let gateway = way.map(gateways.gateway)
                // With the same gateway as before nothing changes.
                let key = FeedKey(served.name, environment, target)
                let present = stage.feeds[key]
                guard present?.gateway !== gateway else { continue }
                let feed = gateway.map { gateway in
                    PushFeed(key, gateway: gateway, stage: stage, settings: settings, logger: logger)
                }
                stage.exchange(present, for: feed)
            }
        }
        return OpenRoute(route: self, logger: logger)
    }
}

extension Gateways {
    /// The gateways of a lane that may have so many connections to each.
    convenience init(
        loop: EventLoop, stage: SendStage, connections: Int, budgets: ConnectBudgets, logger: Logger
    ) {
        self.init { way in
            var configuration = HTTP2PoolConfiguration(host: way.endpoint.host, port: way.endpoint.port)
            configuration.proxy = way.proxy
            configuration.maxConnections = connections
            configuration.queueLimit = 1024
            configuration.responseFields = PushResult.responseFields
            // A certificate has proved who we are before the first request.
            configuration.provesFirst = way.token != nil
            configuration.authorizationHold = ProviderToken.hold
            configuration.budget = budgets.budget(for: way, configuration)
            let pool = HTTP2Pool(
                loop: loop, configuration: configuration, tls: way.tls, authorization: way.token, handler: stage,
                logger: logger)
            return Gateway(pool: pool, token: way.token, loop: loop, name: GatewayName(way))
        }
    }
}

/// An app's way to Apple on one lane; loop-confined.
final class OpenRoute {
    private let route: AppRoute
    private let heads: APNsRequestHeads
    private let logger: Logger

    init(route: AppRoute, logger: Logger) {
        self.logger = logger
        self.route = route
        heads = APNsRequestHeads(bundleID: route.bundleID)
    }

    /// Lays a claimed unit out for the wire.
    func unit(
        _ work: WorkUnit, _ devices: [UnitDevices], claimed: MonotonicTime, lease: LeaseClock, isProbe: Bool
    ) -> UnitInWork {
        let content = work.content
        let lay = { (head: HTTP2RequestHead) in
            let unit = UnitInWork(
                work: work, devices: devices, claimed: claimed, lease: lease, isProbe: isProbe,
                topic: content.effectiveTopic(bundleID: self.route.bundleID) ?? "",
                pathPrefix: self.pathPrefix(content),
                head: head)
            unit.lateAt = work.dueTime / 1_000_000 + self.route.served.maxLateness.components.seconds
            return unit
        }
        do throws(APNsError) {
            return lay(try heads.head(for: content, now: DatabaseClock.unixSeconds))
        } catch {
            // The database lets nothing in that cannot be put into a request. What got in all the same is refused for
            // each of its devices, with the reason, instead of being tried for ever.
            logger.error("a notification cannot be sent", [.notification: work.key.notification, .error: "\(error)"])
            let unit = lay(HTTP2RequestHead(fields: [], body: []))
            unit.refuse(reason: "\(error)")
            return unit
        }
    }

    private func pathPrefix(_ content: PushContent) -> String {
        guard content.channelID != nil else { return "/3/device/" }
        return APNsPath.broadcast(bundleID: route.bundleID) ?? "/4/broadcasts/apps/"
    }
}
