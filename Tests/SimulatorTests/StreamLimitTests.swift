// The stream limit, as a transcript of what happens and what the sender is told.

import APNsSimulator
import Testing

@Suite("Stream limit of a connection")
struct StreamLimitTests {
    private let levels = StreamLimit.Levels()

    private func take(_ limit: inout StreamLimit, _ levels: StreamLimit.Levels) -> Int? {
        limit.takeAnnouncement(levels)
    }

    @Test("1, 1000 after the first valid token, 1 after a rejection, 1000 after the next success")
    func faithful() {
        var limit = StreamLimit()
        #expect(take(&limit, levels) == 1)
        limit.answered(.invalidProviderToken)
        #expect(take(&limit, levels) == nil)
        limit.tokenAccepted()
        limit.answered(nil)
        #expect(take(&limit, levels) == 1000)
        limit.answered(.badDeviceToken)
        #expect(take(&limit, levels) == 1)
        limit.tokenAccepted()
        #expect(take(&limit, levels) == nil, "a valid token alone does not widen it again")
        limit.answered(nil)
        #expect(take(&limit, levels) == 1000)
    }

    @Test(
        "what narrows and what does not",
        arguments: [
            (Rejection.badDeviceToken, 1), (.payloadTooLarge, 1), (.tooManyRequests, 1), (.forbidden, 1),
            (.unregistered, 1000), (.expiredToken, 1000), (.internalServerError, 1000), (.shutdown, 1000),
        ])
    func narrowing(rejection: Rejection, value: Int) {
        var limit = StreamLimit()
        limit.tokenAccepted()
        limit.answered(rejection)
        #expect(limit.value(levels) == value)
    }

    @Test("the levels can be changed at any time")
    func change() {
        var limit = StreamLimit(startsTrusted: true)
        #expect(take(&limit, levels) == 1000)
        var other = levels
        other.full = 0
        #expect(take(&limit, other) == 0)
        other.full = 100
        other.narrowed = nil
        limit.answered(.badDeviceToken)
        #expect(take(&limit, other) == 100)
    }
}

@Suite("Switches of the weather")
struct WeatherSettingTests {
    @Test("each takes back what it shows, and refuses nonsense", arguments: WeatherSetting.table)
    func roundTrip(setting: WeatherSetting) {
        var weather = Weather()
        let isTaken = setting.apply(&weather, setting.show(Weather()))
        #expect(isTaken, "\(setting.name) \(setting.show(Weather()))")
        let isNonsenseTaken = setting.apply(&weather, "nonsense")
        #expect(isNonsenseTaken == (setting.argument == "TEXT"))
    }

    @Test("each of the words of a choice is taken", arguments: WeatherSetting.table)
    func choices(setting: WeatherSetting) {
        guard setting.argument.contains("|") else { return }
        for word in setting.argument.split(separator: "|") where word.first?.isLowercase == true {
            var weather = Weather()
            let isTaken = setting.apply(&weather, String(word))
            #expect(isTaken)
            #expect(setting.show(weather) == word)
        }
    }

    @Test("no name is used twice, nor by an option")
    func names() {
        let names = WeatherSetting.table.map(\.name) + SimulatorOption.table.map(\.name)
        #expect(Set(names).count == names.count)
    }

    @Test(
        "values",
        arguments: [
            ("answer-all", "403:InvalidProviderToken", true), ("answer-all", "off", true),
            ("answer-all", "200:Fine", false),
            ("answer-all", "403", false), ("gone-share", "0.25", true), ("gone-share", "1.5", false),
            ("latency-ms", "-1", false), ("clock-offset-s", "-60", true), ("settings-ms", "never", true),
            ("narrowed-limit", "off", true), ("narrowed-limit", "7", true), ("stream-limit", "99999999999", false),
        ])
    func values(name: String, value: String, isRight: Bool) throws {
        let setting = try #require(WeatherSetting.named(name))
        var weather = Weather()
        let isTaken = setting.apply(&weather, value)
        #expect(isTaken == isRight)
        if isRight { #expect(setting.show(weather) == value) }
    }
}
