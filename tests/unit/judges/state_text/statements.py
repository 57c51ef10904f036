"""Statements of which it is known whether they are true of a state, as test data.

True ones come with the least score that they have to earn, false ones must not earn more than `MOST_FALSE_GRID` or
`MOST_FALSE_METRIC`.
"""

MOST_FALSE_GRID, MOST_FALSE_METRIC = 0.45, 0.5

# P . .      Player (0, 0), goal (2, 1), holes (1, 1) and (2, 2).
# . O .
# . G O
LAKE = {"player_position": (0, 0), "target_position": (2, 1), "hole_positions": [(1, 1), (2, 2)]}
# The goal straight below the player, holes above and left, and above and right.
COLUMN = {"player_position": (1, 1), "target_position": (3, 1), "hole_positions": [(0, 0), (0, 2)]}
BARE = {"player_position": (0, 0), "target_position": (3, 3), "hole_positions": []}
REACHED = {"player_position": (2, 2), "target_position": (2, 2), "hole_positions": [(1, 1)]}
# The box above and left of the player, the target straight above the box.
ROOM = {"player_position": (4, 3), "box_positions": [(3, 2)], "target_positions": [(1, 2)]}
# All in one column, from the top: target, box, player.
LINE = {"player_position": (4, 2), "box_positions": [(3, 2)], "target_positions": [(1, 2)]}
SOLVED = {"player_position": (4, 2), "box_positions": [(3, 2)], "target_positions": [(3, 2)]}
TWO_BOXES = {"player_position": (4, 4), "box_positions": [(1, 1), (2, 2)], "target_positions": [(3, 3)]}

WRONG_COUNTS = [
    "None of the holes is {}",
    "None of the two holes are {}",
    "There are zero holes {}",
    "0 holes are {}",
    "Eleven holes are {}",
    "Twelve holes are {}",
    "Twenty holes are {}",
    "Twenty round icy holes are {}",
    "Twenty-one holes are {}",
    "There are a dozen holes {}",
    "1000 holes are {}",
    "A million holes are {}",
    "2.5 holes are {}",
    "Fewer than two holes are {}",
    "Less than three holes are {}",
    "More than two holes are {}",
    "Two or three holes are {}",
    "All but one of the holes are {}",
    "Half of the holes are {}",
    "Hardly any holes are {}",
    "There are scarcely any holes {}",
    "Barely any hole is {}",
    "More than one hole is {}",
    "There are holes. The twenty holes are {}",
    "There are fewer than two holes. They are {}",
]
"""Sentences about the holes of `LAKE` that are false, or give no number, if `{}` is where its two holes are."""

TRUE_GRID = [
    ("FrozenLake", LAKE, "The goal is below and to the right. Two deep holes are below and to the right of me.", 1.0),
    (
        "FrozenLake",
        LAKE,
        "The goal is below and to the right. There are holes. The two holes are southeast of me.",
        1.0,
    ),
    ("FrozenLake", LAKE, "The goal and at least two holes are below and to the right of me.", 1.0),
    ("FrozenLake", LAKE, "The goal is below and to the right. One of the holes is below and to the right.", 0.85),
    (
        "FrozenLake",
        COLUMN,
        "The goal is below. There are two holes: one is above and left, the other above and right. "
        "Both holes are above me.",
        0.85,
    ),
    ("FrozenLake", BARE, "The goal is below and to the right of the player, and there are zero holes.", 1.0),
    ("FrozenLake", BARE, "The goal is below and to the right of the player. None of the cells is a hole.", 1.0),
    # FrozenLake: number and plural
    ("FrozenLake", LAKE, "The goal is below and to the right of me. Two holes are below and to the right of me.", 1.0),
    (
        "FrozenLake",
        LAKE,
        "The goal is below and to the right. Both holes are below and to the right of the player.",
        1.0,
    ),
    ("FrozenLake", LAKE, "The goal and the two holes are below and to the right of the player.", 1.0),
    ("FrozenLake", LAKE, "Two holes are below and to the right of the player.", 0.3),
    ("FrozenLake", LAKE, "There are holes below and to the right of the player, and so is the goal.", 0.3),
    (
        "FrozenLake",
        LAKE,
        "The gift is below and to the right of me, and there are 2 holes below and to the right.",
        1.0,
    ),
    (
        "FrozenLake",
        LAKE,
        "The player is above and to the left of the goal, and above and to the left of two holes.",
        1.0,
    ),
    ("FrozenLake", LAKE, "The goal is southeast of the player. All holes are southeast of the player.", 1.0),
    (
        "FrozenLake",
        LAKE,
        "There are two holes. Both are below and to the right of me. The goal is below and to the right.",
        1.0,
    ),
    ("FrozenLake", LAKE, "There are several holes below and to the right of the player. The goal is there, too.", 0.3),
    (
        "FrozenLake",
        LAKE,
        "The goal is below and to the right of the player. There is a hole below and to the right.",
        0.85,
    ),
    ("FrozenLake", LAKE, "The goal is below the player.", 0.45),
    ("FrozenLake", COLUMN, "The goal is directly below the player. Two holes are above the player.", 0.85),
    ("FrozenLake", COLUMN, "The goal is directly below the player.", 0.7),
    ("FrozenLake", COLUMN, "The goal is straight below the player.", 0.7),
    ("FrozenLake", COLUMN, "The goal is due south of the player.", 0.7),
    ("FrozenLake", COLUMN, "The goal is exactly below the player.", 0.7),
    ("FrozenLake", COLUMN, "The goal is below the player.", 0.7),
    ("FrozenLake", COLUMN, "The player is directly above the goal.", 0.7),
    ("FrozenLake", COLUMN, "The goal is below me, neither left nor right of me.", 0.7),
    ("FrozenLake", COLUMN, "The goal is in the same column as the player, below it.", 0.7),
    ("FrozenLake", COLUMN, "The goal is below. There are holes above: one to the left and one to the right.", 1.0),
    (
        "FrozenLake",
        COLUMN,
        "The goal is below. A hole is above and to the left, another is above and to the right.",
        0.85,
    ),
    ("FrozenLake", BARE, "The goal is below and to the right of the player, and there are no holes.", 1.0),
    ("FrozenLake", BARE, "I am above and left of the gift.", 1.0),
    ("FrozenLake", BARE, "The goal is below, to the right.", 1.0),
    # FrozenLake: success, VAGEN's appendix E.3
    ("FrozenLake", REACHED, "The player will be at the position of the gift.", 0.7),
    ("FrozenLake", REACHED, "The player will be at the gift's position.", 0.7),
    ("FrozenLake", REACHED, "The goal is reached.", 0.7),
    ("FrozenLake", REACHED, "The goal will be reached by the player.", 0.7),
    ("FrozenLake", REACHED, "The player will get to the goal.", 0.7),
    ("FrozenLake", REACHED, "The player will be where the goal is.", 0.7),
    ("FrozenLake", REACHED, "The player will reach the goal. A hole will be above and to the left.", 1.0),
    ("FrozenLake", REACHED, "I will arrive at the goal.", 0.7),
    ("FrozenLake", REACHED, "The player occupies the goal's cell.", 0.7),
    # Sokoban, VAGEN's appendices D.1.1 and E.2
    ("Sokoban", LINE, "The player is below the box, and the box is below the target.", 0.8),
    ("Sokoban", LINE, "The player is directly below the box, and the box is directly below the target.", 0.8),
    ("Sokoban", LINE, "The box is above me, the target is above me, the target is above the box.", 1.0),
    ("Sokoban", ROOM, "The box is above the player and the target is above the box.", 0.6),
    ("Sokoban", ROOM, "The box is northwest of me. The target is northwest of me and directly north of the box.", 1.0),
    (
        "Sokoban",
        ROOM,
        "The player is below and to the right of the box, and the box is directly below the target.",
        0.8,
    ),
    ("Sokoban", ROOM, "The player is below and right of the box, the box is below the target.", 0.8),
    ("Sokoban", ROOM, "The box and the target are above and to the left of the player.", 0.7),
    ("Sokoban", SOLVED, "The player will be below the box, the target and box will be at the same place.", 0.8),
    ("Sokoban", SOLVED, "The player will be below the box. The target and box will be at the same place.", 0.8),
    ("Sokoban", SOLVED, "The box and target will coincide.", 0.33),
    ("Sokoban", SOLVED, "The box will be at the position of the target.", 0.33),
    ("Sokoban", SOLVED, "The box will be where the target is, and the player will be directly below the box.", 0.8),
    ("Sokoban", TWO_BOXES, "Two boxes are above and to the left of the player.", 0.5),
    (
        "Sokoban",
        TWO_BOXES,
        "Both boxes are above and to the left of me. The target is above and to the left of me.",
        0.7,
    ),
    ("Sokoban", TWO_BOXES, "The boxes are above and to the left of the player.", 0.5),
]

FALSE_GRID = [
    # Wrong directions
    ("FrozenLake", LAKE, "The goal is above and to the left of the player."),
    ("FrozenLake", LAKE, "The goal is above the player."),
    ("FrozenLake", LAKE, "The goal is below and to the left of the player."),
    ("FrozenLake", LAKE, "The goal is at the same row and to the right of the player."),
    ("FrozenLake", LAKE, "The player is to the right of the goal."),
    ("FrozenLake", LAKE, "The goal is northeast of the player."),
    ("FrozenLake", BARE, "The goal is above and to the left of the player."),
    ("FrozenLake", BARE, "The goal is below and to the left of the player, and there are no holes."),
    # "Directly" and its relatives
    ("FrozenLake", LAKE, "The goal is directly below the player."),
    ("FrozenLake", LAKE, "The goal is straight to the right of the player."),
    ("FrozenLake", LAKE, "The goal is due south of the player."),
    ("FrozenLake", LAKE, "The player is exactly above the goal."),
    ("FrozenLake", BARE, "The goal is directly below the player."),
    ("FrozenLake", BARE, "The goal is below the player, neither to the left nor to the right."),
    ("FrozenLake", COLUMN, "The goal is below and to the right of the player."),
    ("FrozenLake", COLUMN, "The goal is neither above nor below the player."),
    ("Sokoban", ROOM, "The box is directly above the player."),
    ("Sokoban", ROOM, "The box is straight to the left of the player and the target is directly above the player."),
    ("Sokoban", LINE, "The player is below and to the left of the box, and the box is to the right of the target."),
    # Wrong numbers and places of holes
    ("FrozenLake", LAKE, "Two holes are above and to the left of the player."),
    ("FrozenLake", LAKE, "Both holes are above the player."),
    ("FrozenLake", LAKE, "Three holes are below and to the right of the player."),
    ("FrozenLake", LAKE, "There are nine holes below and to the right of the player."),
    ("FrozenLake", LAKE, "Holes are to the left of the player, and the goal is to the left, too."),
    ("FrozenLake", BARE, "There are holes above, below, to the left and to the right of the player."),
    ("FrozenLake", BARE, "The goal is above the player. Two holes are below the player."),
    ("FrozenLake", COLUMN, "All holes are below the player."),
    ("FrozenLake", COLUMN, "There are holes below and to the left and holes below and to the right."),
    # Success that has not come
    ("FrozenLake", LAKE, "The player will be at the position of the gift."),
    ("FrozenLake", LAKE, "The goal is reached."),
    ("FrozenLake", LAKE, "The player will be where the goal is."),
    ("FrozenLake", BARE, "The player will get to the goal."),
    ("FrozenLake", LAKE, "The player falls into a hole."),
    ("FrozenLake", REACHED, "The goal is below the player."),
    ("Sokoban", ROOM, "The box and target will coincide."),
    ("Sokoban", LINE, "The box is on the target, and the player is above the box."),
    ("Sokoban", SOLVED, "The target is above the box and the box is above and to the left of the player."),
    # Exchanged and mirrored
    ("Sokoban", ROOM, "The player is above and to the left of the box, and the box is above the target."),
    ("Sokoban", ROOM, "The target is below the box, and the box is to the right of the player."),
    ("Sokoban", ROOM, "The box is above the target, and the target is below the player."),
    ("Sokoban", LINE, "The player is above the box, and the box is above the target."),
    ("Sokoban", LINE, "The box is below the player. The target is below the player. The target is below the box."),
    ("Sokoban", LINE, "The box is to the left of the player, the target is to the right of the player."),
    ("Sokoban", TWO_BOXES, "Both boxes are below the player."),
    ("Sokoban", TWO_BOXES, "Two boxes are below and to the right, and the target is below and to the right of me."),
    ("FrozenLake", COLUMN, "The goal is above, and two holes are below the player."),
    # Contradictions, alternatives, everything at once
    ("FrozenLake", LAKE, "The goal is above or below the player."),
    ("FrozenLake", LAKE, "The goal is below the player. The goal is above the player."),
    ("FrozenLake", LAKE, "The goal is above, below, to the left and to the right of the player."),
    ("FrozenLake", LAKE, "The goal is to the left of the player, or maybe to the right."),
    ("FrozenLake", BARE, "The goal is below or above and to the left or to the right of the player."),
    ("Sokoban", ROOM, "The box is above and below the player, and left and right of it."),
    ("Sokoban", LINE, "The box is above the player or below the player. The target is above or below the box."),
]  # fmt: skip

HOME = {
    "target_obj_type": "Toaster",
    "target_distance_to_player": 2.59,
    "target_direction_to_player": "ahead",
    "visible_objects": [
        {"type": "Sofa", "direction_to_player": "left", "distance_to_player": 1.2},
        {"type": "Toaster", "direction_to_player": "ahead", "distance_to_player": 2.59},
    ],
}
LEFT_HOME = HOME | {
    "target_direction_to_player": "left",
    "visible_objects": [{"type": "Sofa", "direction_to_player": "ahead", "distance_to_player": 1.2}],
}
TABLE = {
    "left_target_position": (80, -100, 0),
    "right_target_position": (80, 100, 0),
    "red_cube_position": (83, -102, 20),
    "green_cube_position": (-47, 95, 20),
}
DRAWER = {"red_cube_position": (60, 100, 20), "drawer_handle_position": (110, 0, 40), "drawer_open_mm": 120}

TRUE_METRIC = [
    ("Navigation", HOME, "The toaster is ahead and to the left.", 0.6),
    ("Navigation", HOME, "The toaster is to our front-left.", 0.6),
    ("Navigation", HOME, "The toaster is forward-left of me.", 0.6),
    ("Navigation", HOME, "The toaster is diagonally ahead on the left.", 0.6),
    ("Navigation", HOME, "The toaster is ahead on the right.", 0.6),
    ("Navigation", HOME, "I will be facing the toaster.", 0.6),
    ("Navigation", HOME, "I am facing the toaster, and there is a sofa on my left.", 0.8),
    ("Navigation", HOME, "There is a toaster directly in front of me, about 2.5 meters away.", 0.8),
    ("Navigation", HOME, "The toaster is straight ahead of me.", 0.6),
    ("Navigation", LEFT_HOME, "The toaster is to my left.", 0.5),
    ("Navigation", LEFT_HOME, "The toaster is to the front-left.", 0.25),
    ("PrimitiveSkill", TABLE, "The red cube is on the left target, the green cube is near the right target.", 0.7),
    ("PrimitiveSkill", TABLE, "The red cube is at x=83, y=-102, z=20 and the green cube at x=-47, y=95, z=20.", 0.7),
    ("PrimitiveSkill", TABLE, "Red cube: 83, -102, 20; green cube: -47, 95, 20.", 0.7),
    ("PrimitiveSkill", TABLE, "The red cube is at (80, -100, 20).", 0.45),
    ("PrimitiveSkill", TABLE, "The red cube will be on the left target.", 0.45),
    ("PrimitiveSkill", DRAWER, "The red cube is at 60, 100, 20. The drawer is open by 115 mm.", 0.85),
    ("PrimitiveSkill", DRAWER, "The cube is at x: 60, y: 100, z: 20", 0.7),
]  # fmt: skip

FALSE_METRIC = [
    ("Navigation", HOME, "The toaster is to my left."),
    ("Navigation", HOME, "The toaster is behind me at 2.59 m."),
    ("Navigation", HOME, "The toaster is ahead or to the left."),
    ("Navigation", HOME, "The toaster is ahead, behind, to the left and to the right."),
    ("Navigation", HOME, "The toaster is ahead. The toaster is to the right."),
    ("Navigation", HOME, "The sofa is the target, and it is ahead."),
    ("Navigation", HOME, "The target is a lamp that is ahead of me."),
    ("Navigation", HOME, "The toaster is 5 m away."),
    ("Navigation", HOME, "The toaster is ahead, 9 m away."),
    ("Navigation", HOME, "The target is ahead."),
    ("Navigation", HOME, "The toaster is behind me and to the right."),
    ("Navigation", HOME, "I will be facing the sofa, and the toaster is to my right."),
    ("Navigation", HOME, "The toaster is on the left and the sofa is ahead."),
    ("Navigation", LEFT_HOME, "The toaster is ahead of me."),
    ("Navigation", LEFT_HOME, "The toaster is to our front-right."),
    ("Navigation", LEFT_HOME, "I will be facing the toaster."),
    ("PrimitiveSkill", TABLE, "The red cube is at (103, -102, 20)."),
    ("PrimitiveSkill", TABLE, "The red cube is at x=83, y=-82, z=20."),
    ("PrimitiveSkill", TABLE, "The red cube is at 83, -102, 45."),
    ("PrimitiveSkill", TABLE, "The red cube is at (-47, 95, 20) and the green cube is at (83, -102, 20)."),
    ("PrimitiveSkill", TABLE, "The red cube is on the right target."),
    ("PrimitiveSkill", TABLE, "The green cube is on the left target, the red cube is on the right target."),
    ("PrimitiveSkill", TABLE, "The green cube is on the right target."),
    ("PrimitiveSkill", TABLE, "The red cube is near the right target, the green cube is near the left target."),
    ("PrimitiveSkill", TABLE, "The red cube is on the left target and on the right target."),
    ("PrimitiveSkill", TABLE, "The red cube is at (83, -102, 20) or (0, 0, 20)."),
    ("PrimitiveSkill", TABLE, "The blue cube is at (83, -102, 20)."),
    ("PrimitiveSkill", TABLE, "The cubes are at (83, -102, 20) and (-47, 95, 20)."),
    ("PrimitiveSkill", TABLE, "The left target is at (80, 100, 0) and the right target is at (80, -100, 0)."),
    ("PrimitiveSkill", DRAWER, "The drawer is closed. The red cube is at (110, 0, 40)."),
    ("PrimitiveSkill", DRAWER, "The drawer is open by 20 mm."),
    ("PrimitiveSkill", DRAWER, "The red cube is at 110, 0, 40 and the drawer handle is at 60, 100, 20."),
]  # fmt: skip
