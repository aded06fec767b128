"""From programs to text: expressions, shells, and the folder where printed modules live."""
