// What the page says, in the browser's language: English or Chinese.
const WORDS = {
  skip: ["Skip to the contents", "跳到正文"], sections: ["Sections", "栏目"], workspace: ["Workspace", "工作区"],
  ask: ["Ask", "提问"], documents: ["Documents", "文档"], graph: ["Graph", "图谱"], leave: ["Log out", "退出"],
  question: ["Your question", "您的问题"], mode: ["Mode", "模式"], stop: ["Stop", "停止"], more: ["Filter", "筛选"],
  filterHelp: ["Only documents whose metadata match, as JSON, such as", "仅限元数据匹配的文档（JSON），例如"],
  badFilter: ["The filter is not valid JSON.", "筛选条件不是有效的 JSON。"], answer: ["Answer", "回答"],
  thinking: ["Searching …", "正在检索……"], references: ["References", "参考文献"], quotes: ["Quoted", "引文"],
  stopped: ["Stopped.", "已停止。"], done: ["Done.", "完成。"], close: ["Close", "关闭"], source: ["Source", "出处"],
  page: ["page", "页"], drop: ["Drop files here, or choose them", "将文件拖放到此处，或选择文件"],
  choose: ["Choose files", "选择文件"], uploading: ["Uploading", "正在上传"], uploaded: ["Uploaded", "已上传"],
  refresh: ["Refresh", "刷新"], retry: ["Retry failed", "重试失败项"], name: ["Name", "名称"], status: ["Status", "状态"],
  chunks: ["Chunks", "分块"], changed: ["Changed", "更新时间"], delete: ["Delete", "删除"], all: ["All", "全部"],
  sure: ["Delete this for good?", "确定永久删除？"], noDocuments: ["There are no documents yet.", "还没有文档。"],
  previous: ["Previous", "上一页"], next: ["Next", "下一页"], cancel: ["Cancel", "取消"], save: ["Save", "保存"],
  find: ["Find an entity", "查找实体"], show: ["Show", "显示"], popular: ["Best connected", "关联最多"],
  empty: ["Nothing was found.", "未找到。"], edit: ["Edit", "编辑"], rename: ["Rename", "重命名"], merge: ["Merge", "合并"],
  hide: ["Hide", "隐藏"], undo: ["Undo last change", "撤销上次更改"], undone: ["Undone.", "已撤销。"],
  type: ["Type", "类型"], description: ["Description", "描述"], keywords: ["Keywords", "关键词"], weight: ["Weight", "权重"],
  newName: ["New name", "新名称"], mergeInto: ["Merge into", "合并到"], relations: ["Relations", "关系"],
  mentioned: ["Mentioned in", "提及于"], aliases: ["Also called", "别名"], expand: ["Expand", "展开"], fit: ["Fit", "适应"],
  zoomIn: ["Zoom in", "放大"], zoomOut: ["Zoom out", "缩小"], truncated: ["Not all is shown.", "未全部显示。"],
  other: ["others", "其他"], newTalk: ["New conversation", "新对话"], picture: ["Graph; entities are buttons", "图谱；实体为按钮"], hint: ["Choose an entity in the graph.", "请在图谱中选择实体。"],
  login: ["Log in", "登录"], user: ["User name", "用户名"], password: ["Password", "密码"], key: ["API key", "API 密钥"],
  keyNeeded: ["A key is needed here.", "需要密钥。"], unreachable: ["The service cannot be reached.", "无法连接服务。"],
  cut: ["The answer broke off.", "回答中断。"], api: ["API", "接口"], home: ["Ask, documents, graph", "提问、文档、图谱"],
  filterRoutes: ["Find a route", "查找接口"], parameters: ["Parameters", "参数"], body: ["Body", "请求体"],
  responses: ["Responses", "响应"], example: ["Example", "示例"], fields: ["Fields", "字段"], needed: ["required", "必填"],
  standard: ["default", "默认"], tryIt: ["Try it", "试一试"], send: ["Send", "发送"], onePerLine: ["one a line", "每行一个"],
  sending: ["Waiting …", "请稍候……"], shortened: ["Only the beginning is shown.", "仅显示开头部分。"],
  sureSend: ["Send this request? It may delete things for good.", "确定发送？此请求可能永久删除数据。"],
  badBody: ["The body is not valid JSON.", "请求体不是有效的 JSON。"], noCredentials: ["needs no credentials", "无需凭据"],
  dark: ["Dark", "深色"], paste: ["Paste a text", "粘贴文本"], text: ["Text, plain or Markdown", "文本（纯文本或 Markdown）"],
  textName: ["Name, as citations will give it", "名称（用于引用）"], add: ["Add", "添加"],
  replaces: ["A name that is known replaces that document.", "同名文档将被替换。"],
  fetch: ["Add a web page or file by its address", "通过网址添加网页或文件"], address: ["Address", "网址"],
};

export const language = (navigator.languages ?? [navigator.language])
  .map((tag) => tag.toLowerCase().split("-")[0]).find((tag) => tag === "zh" || tag === "en") ?? "en";

export function t(key) {
  return WORDS[key]?.[language === "zh" ? 1 : 0] ?? key;
}
