// What --help promises, read from its text and tried: each reason by its command and by its magic tokens, and each magic token.

import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("What --help promises") struct HelpWalkTests {
    /// A row of a table: what stands on its left, and the rest.
    private struct Row {
        let left: String
        let right: String
    }

    /// The rows of the section whose heading begins so.
    private func rows(_ heading: String) async throws -> [Row] {
        let text = try await runCommand(SimulatorProcess.executable("apns-simulator"), ["--help"]).output
        let lines = text.components(separatedBy: "\n").drop { !$0.hasPrefix(heading) }.dropFirst().prefix {
            !$0.isEmpty
        }
        return lines.filter { $0.hasPrefix("  ") && !$0.hasPrefix("   ") }.map { line in
            let line = line.dropFirst(2)
            let end = line.range(of: "  ")?.lowerBound ?? line.endIndex
            return Row(left: String(line[..<end]), right: line[end...].trimmingCharacters(in: .whitespaces))
        }
    }

    @Test("each reason comes by the command and by the magic tokens of its row") func reasons() async throws {
        let rows = try await rows("Reasons")
        #expect(rows.count == Rejection.all.count && Set(rows.map(\.left)).count == rows.count)
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            for row in rows {
                let parts = row.right.components(separatedBy: "  · ")
                let name = row.left.components(separatedBy: " ")
                try await simulator.control(parts[0])
                let answer = try await curl.send(deviceToken("a1"))
                #expect("\(answer.status)" == name[0] && answer.body.contains("\"\(name[1])\""), "\(row)")
                try await simulator.control("calm")
                for digits in parts.dropFirst().flatMap({ $0.components(separatedBy: " ") }) {
                    // Some are for one environment alone.
                    let url = digits == "2400" ? simulator.sandboxURL : simulator.productionURL
                    let magic = try await curl.send(magicToken(digits), to: url)
                    #expect("\(magic.status)" == name[0], "\(digits) \(row)")
                }
            }
        }
    }

    @Test("all reasons of Apple's tables are there") func complete() {
        let documented = """
            BadCollapseId BadDeviceToken BadExpirationDate BadMessageId BadPriority BadTopic DeviceTokenNotForTopic
            DuplicateHeaders IdleTimeout InvalidPushType MissingDeviceToken MissingTopic PayloadEmpty TopicDisallowed
            FeatureNotEnabled MissingChannelId BadChannelId ChannelNotRegistered BadRequestParams BadRequestPayload
            MissingPushType CannotCreateChannelConfig TopicMismatch BadCertificate BadCertificateEnvironment
            ExpiredProviderToken Forbidden InvalidProviderToken MissingProviderToken UnrelatedKeyIdInToken
            BadEnvironmentKeyIdInToken BadEnvironmentKeyInToken BadPath MethodNotAllowed ExpiredToken Unregistered
            PayloadTooLarge TooManyProviderTokenUpdates TooManyRequests InternalServerError ServiceUnavailable Shutdown
            """
        let names = documented.split { $0 == " " || $0 == "\n" }.map(String.init)
        #expect(names.sorted() == Rejection.all.map(\.reason).sorted())
    }

    @Test("each magic token does what its row says, and once means once") func magic() async throws {
        let rows = try await rows("Magic device tokens")
        #expect(rows.map(\.left) == MagicToken.table.map(\.digits))
        try await SimulatorProcess.run { simulator in
            let curl = try CurlSender(simulator)
            for row in rows {
                let url = row.right.contains("on the sandbox") ? simulator.sandboxURL : simulator.productionURL
                let isSilent = row.right.contains("answered")
                let token = magicToken(row.left)
                let first = try await isSilent ? curl.sendInVain(token, to: url) : curl.send(token, to: url)
                let seen = try simulator.journal().requests(for: token)
                #expect(isKept(row.right, first, seen.first?.outcome), "\(row) \(first)")
                guard row.right.contains("once; then accepted") else { continue }
                // curl may have tried a second time by itself.
                #expect(try await curl.send(token, to: url).status == 200, "\(row)")
            }
            let reasons = Set(try simulator.journal().connections.compactMap(\.debug))
            #expect(
                reasons
                    == Set(
                        ["Shutdown", "BadCertificate", "BadCertificateEnvironment"].map { "{\"reason\":\"\($0)\"}" }))
        }
    }

    /// Whether the first answer, and what the journal says of it, are what the row promises.
    private func isKept(_ promise: String, _ answer: CurlAnswer, _ outcome: String?) -> Bool {
        let words = promise.split { " ,".contains($0) }
        if promise.hasPrefix("400, ") { return answer.status == 400 }
        if let status = words.first.flatMap({ Int($0) }), status >= 400 {
            return answer.status == status && answer.body.contains("\"\(words[1])\"")
        }
        if promise.contains("answered") { return answer.status == 0 && outcome == "lost" }
        if promise.hasPrefix("accepted") || promise.hasPrefix("103") { return answer.status == 200 }
        if promise.hasPrefix("RST_STREAM") || promise.contains("then RST_STREAM") { return outcome == "reset" }
        if promise.contains("TCP") { return outcome == "cut off" }
        if promise.hasPrefix("GOAWAY") { return outcome == "refused" }
        return promise.hasPrefix("200") && answer.status == 200
    }
}
