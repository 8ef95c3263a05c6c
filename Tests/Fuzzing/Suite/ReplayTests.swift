// A few seconds of fuzzing in every run of the tests: the kept inputs, and mutations of them from a seed.

import FuzzSurfaces
import TestSupport
import Testing

@Suite("Fuzzing, in short") struct ReplayTests {
    @Test("the kept inputs break no rule", arguments: Surface.allCases)
    func corpus(_ surface: Surface) throws {
        let inputs = try Corpus.inputs(surface)
        #expect(!inputs.isEmpty)
        for (name, bytes) in inputs { examine(surface, bytes, name) }
    }

    @Test("nor do mutations of them", arguments: Surface.allCases)
    func mutations(_ surface: Surface) throws {
        let seeds = try Corpus.inputs(surface).map(\.bytes)
        let pieces = try Corpus.pieces(surface)
        var random = SeededGenerator(seed: 20_261_130)
        for round in 0..<6000 {
            var bytes = seeds[round % seeds.count]
            for _ in 0..<Int.random(in: 1...8, using: &random) { mutate(&bytes, seeds, pieces, &random) }
            guard examine(surface, bytes, "mutation \(round)") else { return }
        }
    }

    @discardableResult
    private func examine(_ surface: Surface, _ bytes: [UInt8], _ name: String) -> Bool {
        do {
            try surface.examine(bytes)
            return true
        } catch {
            Issue.record("\(name): \(error)\nfrom \(String(decoding: bytes, as: UTF8.self).debugDescription)")
            return false
        }
    }

    private func mutate(
        _ bytes: inout [UInt8], _ seeds: [[UInt8]], _ pieces: [[UInt8]], _ random: inout SeededGenerator
    ) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        let end = Int.random(in: place...min(bytes.count, place + 16), using: &random)
        switch Int.random(in: 0..<6, using: &random) {
        case 0: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
        case 1: bytes.insert(contentsOf: pieces.randomElement(using: &random) ?? [], at: place)
        case 2: bytes.removeSubrange(place..<end)
        case 3: bytes.replaceSubrange(place..<end, with: pieces.randomElement(using: &random) ?? [])
        case 4: bytes.insert(contentsOf: bytes[place..<end], at: end)
        default:
            let other = seeds.randomElement(using: &random) ?? []
            let cut = Int.random(in: 0...other.count, using: &random)
            bytes = Array(bytes[..<place] + other[cut...])
        }
    }
}
