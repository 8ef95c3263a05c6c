// Tokens that go past the database are normalised in Swift: held against the same oracle as the SQL, on the same texts.

import APNs
import FuzzSurfaces
import Testing

@Suite("Fuzzing, device tokens in Swift") struct TokenTextTests {
    @Test("what is made of a text is what the oracle says", arguments: 1...8)
    func differential(seed: UInt64) {
        var texts = TokenTexts(seed: seed)
        var faults: Set<TokenOracle.Fault> = []
        for _ in 0..<2000 {
            let text = texts.next()
            let expected = TokenOracle.judge(text)
            if let fault = expected.fault { faults.insert(fault) }
            do throws(APNsError) {
                #expect(
                    try DeviceTokenText.normalised(text, named: "--token") == expected.token, "\(text.debugDescription)"
                )
            } catch {
                #expect(
                    expected.fault.map { error.message.contains($0.rawValue) } == true,
                    "\(text.debugDescription): \(error)")
                #expect(!error.message.contains("\n"))
            }
        }
        #expect(faults.count == TokenOracle.Fault.allCases.count, "\(faults)")
    }
}
