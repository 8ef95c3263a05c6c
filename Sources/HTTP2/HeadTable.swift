// The heads that the requests of a pool use, counted here, so that a request holds an index instead of a reference.

import CNGHTTP2

/// A head in use.
@safe struct HeadEntry {
    var owner: Unmanaged<HTTP2RequestHead>?
    var uses: Int32 = 0
    var nextFree: Int32 = -1
    /// Tells it from later ones at the same index.
    var serial: UInt64 = 0
    /// What the owner keeps alive.
    var template: UnsafeMutablePointer<nghttp2_nv>?
    var templateCount = 0
    var body: UnsafeMutablePointer<UInt8>?
    var bodyCount = 0
}

/// Heads by index; loop-confined.
@safe final class HeadTable {
    private(set) var entries: UnsafeMutablePointer<HeadEntry>
    private(set) var capacity = 16
    private var firstFree: Int32 = -1
    private var latest: Int32 = -1
    private var latestOwner: UnsafeMutableRawPointer?
    private var serial: UInt64 = 0

    init() {
        unsafe entries = .allocate(capacity: capacity)
        vacate(0..<capacity)
    }

    deinit {
        for index in 0..<capacity { unsafe entries[index].owner?.release() }
        unsafe entries.deallocate()
    }

    /// Counts one more use of a head; requests of one notification come one after the other.
    func use(_ head: HTTP2RequestHead) -> Int32 {
        let address = unsafe Unmanaged.passUnretained(head).toOpaque()
        if latest >= 0, unsafe latestOwner == address {
            unsafe entries[Int(latest)].uses += 1
            return latest
        }
        if firstFree < 0 { grow() }
        let index = firstFree
        firstFree = unsafe entries[Int(index)].nextFree
        serial += 1
        unsafe entries[Int(index)] = HeadEntry(
            owner: .passRetained(head), uses: 1, serial: serial, template: head.template.baseAddress,
            templateCount: head.template.count, body: head.body.baseAddress, bodyCount: head.bodyCount)
        latest = index
        unsafe latestOwner = unsafe address
        return index
    }

    /// Counts one use less; the last lets the head go.
    func dispose(_ index: Int32) {
        let entry = unsafe entries + Int(index)
        unsafe entry.pointee.uses -= 1
        guard unsafe entry.pointee.uses == 0 else { return }
        unsafe entry.pointee.owner?.release()
        unsafe entry.pointee.owner = nil
        unsafe entry.pointee.nextFree = firstFree
        firstFree = index
        if latest == index { latest = -1 }
    }

    private func grow() {
        let larger = UnsafeMutablePointer<HeadEntry>.allocate(capacity: capacity * 2)
        unsafe larger.moveInitialize(from: entries, count: capacity)
        unsafe entries.deallocate()
        unsafe entries = unsafe larger
        vacate(capacity..<(capacity * 2))
        capacity *= 2
    }

    private func vacate(_ range: Range<Int>) {
        for index in range.reversed() {
            unsafe (entries + index).initialize(to: HeadEntry(nextFree: firstFree))
            firstFree = Int32(index)
        }
    }
}
