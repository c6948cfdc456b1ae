"""The newest boto3 lists and reads through a directory origin."""
from clients import *

with Story("b02 boto3 reads a directory") as story:
    python = tool("python3")
    sums = make_tree(story)
    server = story.penstock(origin="dir:" + story.path("tree"))
    boto3_reads(story, server, python, "photos", "set/", sums)
