"""Prints a hand-written plan with the hash of a graph, taken from a plan that the
compiler wrote, in the place of GRAPH:  fill_plan.py written.json by-hand.json
"""

import json
import sys

written, plan = sys.argv[1:]
graph = json.load(open(written))["functions"][0]["graph"]
sys.stdout.write(open(plan).read().replace("GRAPH", graph))
