// The rules of the grid worlds, on drawings: rows of symbols joined by newlines. No document in here.
// They are those of vlm_envs/worlds/frozen_lake.py and vlm_envs/worlds/sokoban_solver.py; tests hold both together.

const MOVES = [[-1, 0], [1, 0], [0, -1], [0, 1]];

const cellsOf = (drawing) => drawing.split("\n").map((row) => [...row]);
const drawn = (cells) => cells.map((row) => row.join("")).join("\n");
const find = (cells, symbols) => {
  const row = cells.findIndex((each) => each.some((symbol) => symbols.includes(symbol)));
  return [row, cells[row].findIndex((symbol) => symbols.includes(symbol))];
};

const GRIDS = {
  frozen_lake: {
    goal: "Walk over the ice to the goal. A step into a hole ends it.",
    isSolved: (drawing) => drawing.includes("*"),
    isLost: (drawing) => drawing.includes("X"),
    move(drawing, direction) {
      if (this.isSolved(drawing) || this.isLost(drawing)) return drawing;
      const cells = cellsOf(drawing);
      const [row, column] = find(cells, "P");
      const [down, right] = MOVES[direction];
      const ahead = cells[row + down]?.[column + right];
      if (ahead === undefined) return drawing;
      cells[row][column] = "_";
      cells[row + down][column + right] = { _: "P", O: "X", G: "*" }[ahead];
      return drawn(cells);
    },
  },
  sokoban: {
    goal: "Push every box onto a target. Boxes cannot be pulled.",
    isSolved: (drawing) => !drawing.includes("X"),
    isLost: () => false,
    // After its end the world takes no more actions, but its rules would go on; so do these.
    move(drawing, direction) {
      const cells = cellsOf(drawing);
      const [row, column] = find(cells, "PS");
      const [down, right] = MOVES[direction];
      const ahead = cells[row + down][column + right];
      if (ahead === "#") return drawing;
      if ("X*".includes(ahead)) {
        const behind = cells[row + 2 * down][column + 2 * right];
        if (!"_O".includes(behind)) return drawing;
        cells[row + 2 * down][column + 2 * right] = behind === "O" ? "*" : "X";
      }
      cells[row][column] = cells[row][column] === "S" ? "O" : "_";
      cells[row + down][column + right] = "O*".includes(ahead) ? "S" : "P";
      return drawn(cells);
    },
  },
};

