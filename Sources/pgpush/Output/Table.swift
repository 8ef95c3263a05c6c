// Tables for people. With a width (a terminal), the columns that may shrink are cut so that a row stays on one line;
// without one (a pipe), nothing is cut. Programs should read --json instead.

import PushStore

/// Lays out rows in columns.
enum Table {
    private static let gap = 2
    private static let narrowest = 8

    /// The lines of the table, a heading first.
    ///
    /// Each row has a text for each column, nil being shown as "-"; without a width nothing is cut.
    static func lines(_ columns: [ReportColumn], _ rows: [[String?]], width: Int?, style: Style) -> [String] {
        let cells = rows.map { $0.map { $0.map(DisplayText.cleaned) ?? "-" } }
        var widths = columns.indices.map { index in
            cells.reduce(DisplayText.width(columns[index].title)) { max($0, DisplayText.width($1[index])) }
        }
        if let width { shrink(&widths, columns, to: width) }
        let heading = line(columns.map(\.title), columns, widths) { text, _ in style.paint(text, .bold) }
        return [heading]
            + cells.map { row in
                line(row, columns, widths) { text, column in
                    column.kind == .status ? style.paint(text, Style.ink(ofStatus: text)) : text
                }
            }
    }

    private static func shrink(_ widths: inout [Int], _ columns: [ReportColumn], to width: Int) {
        var excess = widths.reduce(0, +) + gap * (widths.count - 1) - width
        while excess > 0 {
            let flexible = columns.indices.filter { columns[$0].kind == .long && widths[$0] > narrowest }
            guard let widest = flexible.max(by: { widths[$0] < widths[$1] }) else { return }
            widths[widest] -= 1
            excess -= 1
        }
    }

    private static func line(
        _ cells: [String], _ columns: [ReportColumn], _ widths: [Int], _ paint: (String, ReportColumn) -> String
    ) -> String {
        var result = ""
        for (index, column) in columns.enumerated() {
            let text = DisplayText.cut(cells[index], to: widths[index])
            let padding = String(repeating: " ", count: max(0, widths[index] - DisplayText.width(text)))
            let painted = paint(text, column)
            let isLast = index == columns.count - 1
            result += column.kind == .number ? padding + painted : painted + (isLast ? "" : padding)
            if !isLast { result += String(repeating: " ", count: gap) }
        }
        return result
    }

    /// Names and values below one another, the values aligned.
    static func pairs(_ pairs: [(name: String, value: String?)], style: Style) -> [String] {
        let widest = pairs.reduce(0) { max($0, DisplayText.width($1.name)) }
        return pairs.map { pair in
            let padding = String(repeating: " ", count: widest - DisplayText.width(pair.name) + gap)
            let value = pair.value.map(DisplayText.cleaned) ?? "-"
            let ink = pair.name == "status" ? Style.ink(ofStatus: value) : nil
            return style.paint(pair.name, .dim) + padding + style.paint(value, ink)
        }
    }
}
