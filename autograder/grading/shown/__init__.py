"""What people see of a graded submission: outputs, remarks, feedback; nothing in it is active."""
