"""Looking at suspect labels and deciding about them: the local page, its server, and the decisions."""
