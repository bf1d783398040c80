"""A trace as lanes, a row for each stream and thread of each rank; one zooms with keys or mouse."""

from course_utils.show.lanes.drawing import Lanes
from course_utils.show.lanes.viewer import LaneViewer, trace_lanes

__all__ = ["LaneViewer", "Lanes", "trace_lanes"]
