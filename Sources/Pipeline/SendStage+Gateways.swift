// Which apps can be sent for: what the gateways are doing, and what becomes of units that wait for one that is away.
//
// An app has two gateways. Only if neither of those in use works, nothing is claimed for it and what waits goes back whole.

import HTTP2
import PushModel
import PushStore
import Reactor
import Telemetry

extension SendStage {
    /// Adds the feed that carries an app's pushes to one environment.
    func attach(_ feed: PushFeed) {
        feeds[feed.key] = feed
        appFeeds[feed.app, default: []].append(feed)
        feed.gateway.attach(feed)
        if !gateways.contains(where: { $0 === feed.gateway }) { gateways.append(feed.gateway) }
    }

    /// The feed that carries a part of a unit.
    func feed(for unit: UnitInWork, _ place: Int) -> PushFeed? {
        let content = unit.work.content
        let environment = unit.segments[place].environment
        let own = content.channelID == nil ? nil : feeds[FeedKey(content.app, environment, .channels)]
        return own ?? feeds[FeedKey(content.app, environment)]
    }

    /// Takes a feed in the place of another: what waits goes over to it, what is on the wire ends where it is.
    func exchange(_ old: PushFeed?, for new: PushFeed?) {
        if let old {
            feeds[old.key] = nil
            appFeeds[old.app]?.removeAll { $0 === old }
            failedFeeds.removeAll { $0 === old }
            if old.gateway.detach(old) { gateways.removeAll { $0 === old.gateway } }
        }
        if let new { attach(new) }
        guard let old else { return }
        for unit in unitsInWork {
            for place in unit.segments.indices where unit.segments[place].feed === old {
                unit.segments[place].feed = feed(for: unit, place)
                if unit.stopReason == nil { line(unit, up: place) }
            }
            endIfDecided(unit)
        }
        // Comes back as certainly not processed, and goes into the line of the new one.
        old.gateway.pool.withdraw { tag in
            guard let unit = unitInWork(Int(tag >> 32)) else { return false }
            return unit.work.content.app == old.app
                && unit.segments[unit.segment(of: Int(tag & 0xffff_ffff))].environment == old.environment
        }
    }

    /// How many streams the gateways of an app allow at present.
    func streams(of app: String) -> Int {
        (appFeeds[app] ?? []).reduce(0) { $0 + $1.gateway.pool.streamCapacity }
    }

    // MARK: Progress

    /// How many pushes the feeds of a unit have brought to an end.
    func progress(of unit: UnitInWork) -> UInt64 {
        unit.segments.reduce(0) { $0 &+ ($1.feed?.progress ?? 0) }
    }

    /// Whether a unit's feeds have brought anything to an end since its lease was last renewed.
    func makesProgress(_ unit: UnitInWork) -> Bool { progress(of: unit) != unit.progressAtRenewal }

    // MARK: Reach

    /// Looks which gateways are out of reach, and has them tried again; what was put off for one that is back goes on.
    ///
    /// To be called before it is asked what can be sent for, and again while something cannot.
    func lookAtGateways() {
        for gateway in gateways { gateway.look() }
        for own in appFeeds.values {
            for feed in own { feed.comeBack() }
            let others = own.filter { !$0.isBlocked(for: .zero) }
            guard others.count < own.count else { continue }
            // Production is worth a connection to find out; to the sandbox many have no way and never need one.
            others.first { $0.environment == .production }?.gateway.pool.warmUp()
        }
    }

    /// Whether an app can be sent for, as far as anybody knows.
    ///
    /// One gateway that fails, or has been out of reach for at least `limit`, does not hold up the other, if that one is in use.
    func isReachable(_ app: String, for limit: Duration = .zero) -> Bool {
        let own = appFeeds[app] ?? []
        let others = own.filter { !$0.isBlocked(for: limit) }
        if others.count == own.count { return true }
        // One that is to be tried again after a failure needs a push for it.
        return others.contains { $0.isProven || $0.isOnTrial }
    }

    /// Whether the only gateway in use has failed and a single push is to find out whether it works again.
    func isOnTrial(_ app: String) -> Bool {
        let own = appFeeds[app] ?? []
        return own.contains(where: \.isOnTrial) && !own.contains(where: \.isProven)
    }

    /// Gives back what waits for gateways that fail, or have been out of reach for at least `limit`.
    func giveUpUnreachable(for limit: Duration) {
        for feed in feeds.values where feed.isBlocked(for: limit) { giveUp(feed) }
    }

    /// Gives back what waits for one gateway.
    ///
    /// Units of an app that cannot be sent for go back whole: another replica may reach Apple, and whoever looks sees rows that
    /// are pending instead of rows that are being sent. Where the app's other gateway works, claims go on and would bring the
    /// same units again at once, so only the pushes concerned are put off.
    private func giveUp(_ feed: PushFeed) {
        if isReachable(feed.app) {
            feed.isAway = true
            withdrawQueued(of: feed)
            planPump()
        } else {
            stop(.paused) { unit in unit.segments.contains { $0.feed === feed } }
        }
    }

    /// A gateway has failed: nothing more is sent to it.
    func gatewayFailed(_ feed: PushFeed) {
        failedFeeds.append(feed)
        planPump()
    }

    /// Carries out what `gatewayFailed` has announced, outside the pools.
    func giveUpFailed() {
        let failed = failedFeeds
        failedFeeds = []
        for feed in failed { giveUp(feed) }
    }

    /// A gateway works again: what waits for it goes on.
    func gatewayRecovered() { planPump() }

    // MARK: Farewells

    /// A connection was ended because of the credential or the environment: everything of that scope waits.
    func hold(_ feed: PushFeed, _ scope: PauseScope, _ reason: String) {
        let pause = ScopePause(
            app: feed.app, environment: feed.environment, topic: nil, reason: reason)
        self.pause(pause)
        // Whoever was to find out has found out.
        for unit in unitsInWork where unit.isProbe {
            for segment in unit.segments where segment.feed === feed {
                pauseAgain(unit, segment.range.lowerBound)
                unit.failAsProbe()
            }
        }
        holdAnew()
    }
}
