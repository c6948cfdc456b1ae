"""So does the boto3 that Debian 12 ships."""
from clients import *

with Story("b03 Debian's boto3 reads a directory") as story:
    if run(["/usr/bin/python3", "-c", "import boto3"])[0] != 0:
        raise Skip("Debian's python3-boto3 is not installed: run scripts/tools all")
    sums = make_tree(story)
    server = story.penstock(origin="dir:" + story.path("tree"))
    boto3_reads(story, server, "/usr/bin/python3", "photos", "set/", sums)
