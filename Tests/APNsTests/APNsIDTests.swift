// The apns-id carries its two numbers and gives them back; anything else is refused.

import APNs
import TestSupport
import Testing

@Suite struct APNsIDTests {
    private static let limit: Int64 = 1 << 60

    private static let layoutCases: [(Int64, Int64, String)] = [
        (0, 0, "00000000-0000-8000-8000-000000000000"),
        (1, 1, "00000000-0000-8001-8000-000000000001"),
        (42, -3, "00000000-0000-802a-a000-000000000003"),
        (0x123_4567_89ab_cdef, 0xfed_cba9_8765_4321, "12345678-9abc-8def-8fed-cba987654321"),
        ((1 << 60) - 1, (1 << 60) - 1, "ffffffff-ffff-8fff-8fff-ffffffffffff"),
        ((1 << 60) - 1, 1 - (1 << 60), "ffffffff-ffff-8fff-afff-ffffffffffff"),
        (4096, 0x1000_0000_0000, "00000000-0001-8000-8000-100000000000"),
    ]

    @Test(arguments: layoutCases)
    func layout(_ notification: Int64, _ device: Int64, _ text: String) throws {
        let id = try #require(APNsID(notification: notification, device: device))
        #expect(id.text == text)
        #expect(APNsID(text) == id)
        #expect(APNsID(text.uppercased()) == id)
    }

    @Test func everyNumberComesBack() throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<5000 {
            let notification =
                Int64.random(in: 0..<APNsIDTests.limit, using: &random) >> Int64.random(in: 0..<60, using: &random)
            let device =
                Int64.random(in: (1 - APNsIDTests.limit)..<APNsIDTests.limit, using: &random)
                >> Int64.random(in: 0..<60, using: &random)
            let id = try #require(APNsID(notification: notification, device: device))
            let back = try #require(APNsID(id.text))
            #expect(back.notification == notification)
            #expect(back.device == device)
        }
    }

    private static let misfits: [(Int64, Int64)] = [
        (-1, 0), (1 << 60, 0), (.max, 0), (.min, 0), (0, 1 << 60), (0, -(1 << 60)), (0, .min),
    ]

    @Test(arguments: misfits)
    func numbersThatDoNotFit(_ notification: Int64, _ device: Int64) {
        #expect(APNsID(notification: notification, device: device) == nil)
        var buffer = [UInt8](repeating: 0x2a, count: 40)
        let written = buffer.withUnsafeMutableBytes {
            APNsID.write(notification: notification, device: device, into: $0)
        }
        #expect(!written)
        #expect(buffer.allSatisfy { $0 == 0x2a })
    }

    @Test func writesOnlyItsOwnBytes() {
        var buffer = [UInt8](repeating: 0x2a, count: 40)
        #expect(buffer.withUnsafeMutableBytes { APNsID.write(notification: 1, device: 2, into: $0) })
        #expect(String(decoding: buffer.prefix(36), as: UTF8.self) == "00000000-0000-8001-8000-000000000002")
        #expect(buffer.suffix(4).allSatisfy { $0 == 0x2a })
        var short = [UInt8](repeating: 0, count: 35)
        #expect(!short.withUnsafeMutableBytes { APNsID.write(notification: 1, device: 2, into: $0) })
    }

    @Test(arguments: [
        "", "0", "00000000-0000-8000-8000-00000000000", "00000000-0000-8000-8000-0000000000000",
        "00000000-0000-4000-8000-000000000000", "00000000-0000-8000-9000-000000000000",
        "00000000-0000-8000-b000-000000000000", "00000000-0000-8000-c000-000000000000",
        "00000000-0000-8000-a000-000000000000", "0000000000000-8000-8000-000000000000",
        "g0000000-0000-8000-8000-000000000000", "00000000-0000-8000-8000-00000000000é",
        "00000000_0000-8000-8000-000000000000",
    ])
    func otherTexts(_ text: String) { #expect(APNsID(text) == nil) }
}
