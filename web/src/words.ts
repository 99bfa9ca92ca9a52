// What the page says, in English and Chinese. A word that one language lacks does not compile.
import { signal } from "@preact/signals";

const WORDS = {
  // the frame
  skip: ["Skip to the contents", "跳到正文"], sections: ["Sections", "栏目"], workspace: ["Workspace", "工作区"],
  ask: ["Ask", "提问"], documents: ["Documents", "文档"], graph: ["Graph", "图谱"], overview: ["Overview", "概览"],
  api: ["API", "接口"], leave: ["Log out", "退出"], dark: ["Dark", "深色"], light: ["Light", "浅色"],
  language: ["中文", "English"], newWorkspace: ["New workspace …", "新建工作区……"], workspaceName: ["Name: letters, digits, _ . -", "名称：字母、数字、_ . -"],
  close: ["Close", "关闭"], cancel: ["Cancel", "取消"], save: ["Save", "保存"], delete: ["Delete", "删除"], undo: ["Undo", "撤销"],
  copy: ["Copy", "复制"], copied: ["Copied.", "已复制。"], retry: ["Try again", "重试"], all: ["All", "全部"], none: ["None", "无"],
  loading: ["Loading …", "正在加载……"], unreachable: ["The service cannot be reached.", "无法连接服务。"],
  dismiss: ["Dismiss", "关闭提示"], more: ["More", "更多"], readOnly: ["You may read here, not change.", "您在此只能查看，不能修改。"],
  search: ["Search", "搜索"], previous: ["Previous", "上一页"], next: ["Next", "下一页"], back: ["Back", "返回"],
  // log-in
  login: ["Log in", "登录"], user: ["User name", "用户名"], password: ["Password", "密码"], key: ["API key", "API 密钥"],
  keyNeeded: ["A key is needed here.", "此处需要密钥。"], loginNeeded: ["Log in to see this knowledge base.", "请登录以查看此知识库。"],
  // asking
  askTitle: ["Ask your documents", "向您的文档提问"], askHint: ["Every sentence of the answer leads to where it is written.", "回答中的每一句都能追溯到原文。"],
  question: ["Your question", "您的问题"], placeholder: ["Ask about your documents", "就您的文档提问"],
  send: ["Send", "发送"], stop: ["Stop", "停止"], mode: ["Mode", "模式"], answer: ["Answer", "回答"], stopped: ["Stopped.", "已停止。"],
  answered: ["Answer ready.", "回答完成。"], cut: ["The answer broke off.", "回答中断。"],
  newTalk: ["New conversation", "新对话"], conversations: ["Conversations", "对话"], rename: ["Rename", "重命名"], exportTalk: ["Export as Markdown", "导出为 Markdown"],
  exportAll: ["Export all as JSON", "全部导出为 JSON"], talkName: ["Name of the conversation", "对话名称"], talkDeleted: ["Conversation deleted.", "对话已删除。"],
  askAgain: ["Ask again", "重新提问"], editAsk: ["Edit and ask again", "编辑后重新提问"], inspect: ["How it was found", "检索过程"],
  sources: ["Sources", "来源"], source: ["Source", "来源"], references: ["References", "参考文献"], showMore: ["Show more", "显示更多"],
  kept: ["Cached answer", "缓存回答"], alsoRead: ["more read", "份另外读过"],
  offlineOnce: ["No chat model is connected, so answers are quoted from your documents word for word. Everything else works the same. A model can be connected in the settings.", "尚未连接聊天模型，因此回答逐字摘自您的文档，其余功能不变。可在设置中连接模型。"],
  understood: ["Got it", "知道了"], howToConnect: ["How to connect one", "如何连接"],
  tokens: ["tokens", "词元"], secondsShort: ["s", "秒"], minutesShort: ["min", "分钟"], notes: ["Notes", "注意"],
  nothingFound: ["Nothing was found in the documents for this question.", "文档中没有找到与此问题相关的内容。"],
  understanding_question: ["Understanding the question", "理解问题"], extracting_keywords: ["Choosing keywords", "提取关键词"],
  retrieving_entities: ["Searching entities", "检索实体"], retrieving_relations: ["Searching relations", "检索关系"],
  retrieving_chunks: ["Searching passages", "检索段落"], reranking: ["Reranking", "重排序"], generating_response: ["Writing", "撰写回答"], waiting: ["Waiting", "等待中"],
  examples: ["Try", "试试"],
  // parameters
  parameters: ["Parameters", "参数"], preset: ["Preset", "预设"], presetBalanced: ["Balanced", "均衡"], presetQuick: ["Quick", "快速"], presetThorough: ["Thorough", "深入"],
  presetPrecise: ["Names and facts", "名称与事实"], savePreset: ["Save as preset", "存为预设"], presetName: ["Name of the preset", "预设名称"], reset: ["Reset", "重置"],
  compare: ["Compare two modes", "对比两种模式"], otherMode: ["Second mode", "第二种模式"],
  mode_auto: ["Understands the question and searches accordingly", "理解问题后自动选择检索方式"], mode_fusion: ["Vectors, words, entities and bridges together", "融合向量、关键词、实体与桥接"],
  mode_mix: ["Graph and passages", "图谱与段落"], mode_hybrid: ["Entities and relations", "实体与关系"], mode_local: ["Around named entities", "围绕具名实体"],
  mode_global: ["By relations and themes", "按关系与主题"], mode_naive: ["Passages only", "仅段落"], mode_bypass: ["The model alone", "仅模型"],
  p_response_type: ["Form of the answer", "回答形式"], p_top_k: ["Entities and relations searched", "检索的实体与关系数"], p_chunk_top_k: ["Passages kept", "保留的段落数"],
  p_max_entity_tokens: ["Budget of entities", "实体预算"], p_max_relation_tokens: ["Budget of relations", "关系预算"], p_max_total_tokens: ["Budget of everything", "总预算"],
  p_hl_keywords: ["Themes, comma-separated", "主题关键词（逗号分隔）"], p_ll_keywords: ["Names, comma-separated", "名称关键词（逗号分隔）"], p_user_prompt: ["Instructions to the model", "给模型的说明"],
  p_disable_user_prompt_prefix: ["Leave out the server's instructions", "忽略服务器说明"], p_enable_rerank: ["Rerank passages", "重排序段落"],
  p_filter: ["Only documents whose metadata match, as JSON", "仅限元数据匹配的文档（JSON）"], p_channels: ["Further channels", "附加通道"], by_score: ["scores", "分数"], by_rank: ["ranks", "排名"], by_vector: ["nearness", "相似度"], by_weight: ["weight", "权重"], by_shared_relations: ["shared relations", "共同关系"], p_fusion: ["Fusion", "融合方式"], p_chunk_picking: ["Passages of entities", "实体段落选取"],
  p_context_format: ["Context format", "上下文格式"], p_history_turns: ["Turns of the conversation used (0: all)", "使用的对话轮数（0 为全部）"], p_only_need_context: ["Show the context, no answer", "仅显示上下文"],
  p_only_need_prompt: ["Show the prompt, no answer", "仅显示提示词"], standard: ["default", "默认"], badFilter: ["The filter is not valid JSON.", "筛选条件不是有效的 JSON。"],
  yes: ["yes", "是"], no: ["no", "否"],
  // inspector
  i_summary: ["Summary", "摘要"], i_high: ["Themes", "主题"], i_low: ["Names and details", "名称与细节"], i_parts: ["Parts of the question", "问题的组成"], i_sides: ["Compared", "对比对象"],
  i_kind: ["Kind of question", "问题类型"], i_respelt: ["Searched as", "检索时写作"], i_channels: ["Channels", "通道"], i_passages: ["Passages", "段落"], i_entities: ["Entities", "实体"], i_relations: ["Relations", "关系"],
  i_tokens: ["Tokens", "词元"], i_timings: ["Timings", "耗时"], i_prompt: ["Prompt", "提示词"], i_bridges: ["Bridges", "桥接"], i_outcome: ["Outcome", "结果"], i_total: ["Total", "总计"], i_rank: ["Rank", "排名"],
  o_kept: ["kept", "保留"], o_count: ["beyond the number of passages", "超出段落数"], o_rerank: ["dropped by the reranker", "被重排序舍弃"], o_budget: ["did not fit the budget", "超出预算"],
  found: ["found", "找到"], keptN: ["kept", "保留"], dropped: ["dropped", "舍弃"], noPrompt: ["No model was asked, so there is no prompt.", "未询问模型，因此没有提示词。"], of: ["of", "/"],
  channel_vector: ["Meaning", "语义"], channel_keyword: ["Words", "词语"], channel_entity: ["Named entities", "具名实体"], channel_relation: ["Relations", "关系"], channel_bridge: ["Bridges", "桥接"], channel_graph: ["Graph walk", "图游走"],
  channel_chunks: ["Passages by meaning", "语义段落"], channel_entities: ["Passages of entities", "实体段落"], channel_relations: ["Passages of relations", "关系段落"],
  tk_prompt: ["Prompt", "提示词"], tk_question: ["Question", "问题"], tk_entities: ["Entities", "实体"], tk_relations: ["Relations", "关系"], tk_chunks: ["Passages", "段落"], tk_frame: ["Frame", "框架"], tk_free: ["Free", "剩余"],
  stage_understanding: ["Understanding", "理解"], stage_keywords: ["Keywords", "关键词"], stage_embed: ["Embedding", "向量化"], stage_search: ["Search", "检索"], stage_select: ["Selection", "筛选"], stage_chunks: ["Passages", "段落"], stage_rerank: ["Reranking", "重排序"], stage_total: ["Retrieval", "检索总计"], stage_answer: ["Answer", "回答"],
  kind_fact: ["a fact", "事实"], kind_how: ["how to", "方法"], kind_compare: ["a comparison", "比较"], kind_why: ["a cause", "原因"], kind_list: ["a list", "列举"], kind_overview: ["an overview", "概述"],
  // source panel
  page: ["page", "页"], openDocument: ["Open the document", "打开文档"], passageOf: ["Passages cited", "引用段落"], rendered: ["Text", "正文"], chunks: ["Chunks", "分块"], chunksOf: ["chunks", "个分块"], chunk: ["Chunk", "分块"],
  showPage: ["Show the page as printed:", "显示原页："], hidePage: ["Hide the page as printed:", "隐藏原页："], noOriginal: ["The file itself is not kept by the service, so its page cannot be shown.", "服务未保存原文件，无法显示原页。"],
  noText: ["This document has no text yet.", "此文档尚无正文。"], alsoIn: ["The same text stands in", "相同文本还出现在"],
  // documents
  addDocuments: ["Add documents", "添加文档"], drop: ["Drop files or folders here", "将文件或文件夹拖放到此处"], choose: ["Choose files", "选择文件"], chooseFolder: ["Choose a folder", "选择文件夹"], pasteText: ["Paste a text", "粘贴文本"],
  addUrl: ["Add an address", "添加网址"], address: ["Address of a web page or file", "网页或文件的网址"], text: ["Text, plain or Markdown", "文本（纯文本或 Markdown）"], textName: ["Name, as citations will give it", "名称（用于引用）"],
  replaces: ["A name that is known replaces that document.", "同名文档将被替换。"], add: ["Add", "添加"], uploading: ["Uploading", "正在上传"], accepted: ["accepted", "已接收"], refused: ["refused", "被拒绝"], unchanged: ["unchanged", "未变化"],
  kinds: ["Reads", "支持"], noDocuments: ["There are no documents yet.", "还没有文档。"], noMatch: ["No document matches.", "没有匹配的文档。"], name: ["Name", "名称"], status: ["Status", "状态"], changed: ["Changed", "更新时间"], added: ["Added", "添加时间"], size: ["Length", "长度"],
  filterByName: ["Find by the beginning of the name", "按名称开头查找"], selected: ["selected", "已选"], selectAll: ["Select all shown", "全选当前"], selectOne: ["Select", "选择"], update: ["Replace with a file", "用文件替换"], retryFailed: ["Retry failed", "重试失败项"], cancelWork: ["Stop the work", "停止处理"],
  tryingAgain: ["Trying again.", "正在重试。"], willDelete: ["will be deleted", "将被删除"], sortBy: ["Sort by", "排序"], s_pending: ["waiting", "等待"], s_parsing: ["reading", "解析中"], s_processing: ["processing", "处理中"], s_processed: ["ready", "就绪"], s_partial: ["partly ready", "部分就绪"], s_failed: ["failed", "失败"],
  underWay: ["Under way", "正在进行"], loadingModels: ["Loading the models", "正在加载模型"], readingChunks: ["Reading chunks", "读取分块"], storing: ["Embedding and storing", "向量化并存储"], left: ["time left", "预计还需"], askReady: ["Ask what is ready", "就绪部分可先提问"], readyToAsk: ["The documents are ready.", "文档已就绪。"], job_files: ["Reading files", "读取文件"], job_url: ["Fetching an address", "获取网址"], job_scan: ["Scanning the input folder", "扫描输入目录"], job_process: ["Processing", "处理"], job_retry: ["Trying again", "重试"], job_delete: ["Deleting", "删除"], job_clear: ["Clearing", "清空"],
  j_waiting: ["waiting", "等待"], j_running: ["running", "运行中"], j_done: ["done", "完成"], j_failed: ["failed", "失败"], j_cancelled: ["cancelled", "已取消"],
  do_retry: ["Try again; if it fails in the same way, replace the file.", "请重试；若仍失败，请替换文件。"],
  entitiesIn: ["Entities", "其中的实体"], metadata: ["Metadata", "元数据"], scanFolder: ["Read the input folder", "扫描输入目录"], scanning: ["The input folder is read.", "正在扫描输入目录。"], log: ["Log of the work", "处理日志"], dropCache: ["Drop cached replies", "清除缓存的回复"], cacheDropped: ["The cached replies are gone.", "已清除缓存的回复。"], deleteAll: ["Delete all documents", "删除所有文档"], deletingAll: ["All documents are being deleted.", "正在删除所有文档。"], deleteAllHint: ["All documents of this workspace, their graph and their files go, for good.", "将永久删除此工作区的所有文档、图谱与文件。"], typeToDelete: ["To confirm, type the name of the workspace:", "请输入工作区名称以确认："], history: ["History", "历史"], versions: ["Versions of the text", "正文版本"], versionsHint: ["Who gave which text, and when. Earlier texts are not kept: what was taken out of a document is gone.", "何人何时提交了哪个正文。旧正文不保留：从文档中删去的内容即不复存在。"], editText: ["Edit the text", "编辑正文"], saved: ["Saved; the text is being read.", "已保存，正在读取正文。"], savedBeside: ["Saved; the text is unchanged.", "已保存；正文未变。"], characters: ["characters", "字符"], h_added: ["Taken in", "收录"], h_changed: ["Last changed", "最近更改"], h_batch: ["Batch", "批次"], sameAs: ["Its text is the same as that of another document, which holds the chunks.", "其文本与另一文档相同，分块存于该文档。"], highlight: ["Highlight entities", "高亮实体"], mentions: ["mentions", "次提及"], statements: ["Statements", "陈述"],
  // first run
  welcome: ["Begin with some documents", "从文档开始"], welcomeHint: ["This workspace is empty. Choose how to begin; nothing leaves this machine.", "此工作区为空。请选择如何开始；数据不会离开本机。"], trySamples: ["Try the sample documents", "试用示例文档"], samplesHint: ["A handbook and a story, in English and Chinese. Ready within a minute.", "一本手册和一个故事，中英双语，一分钟内就绪。"], uploadOwn: ["Add your own", "添加自己的文档"], uploadHint: ["Files, folders, a pasted text or an address.", "文件、文件夹、粘贴文本或网址。"], connectModel: ["Connect a model", "连接模型"], connectHint: ["Optional. It writes answers and reads documents more deeply.", "可选。用于撰写回答并更深入地理解文档。"],
  connectHow: ["Heliograph works without a model: answers are quoted. To have them written, name any OpenAI-compatible service in the settings of the server, and start it again:", "没有模型时 Heliograph 也能工作：回答摘自原文。若要由模型撰写，请在服务器设置中指定任意兼容 OpenAI 的服务并重新启动："], askSoon: ["Your documents are being read. You can ask as soon as the first are in.", "正在读取文档，首批就绪后即可提问。"], askAlready: ["You can ask already. Answers know more as further documents come in.", "现在即可提问；随着其余文档就绪，回答会更完整。"], documentsReady: ["documents ready", "份文档已就绪"],
  // graph
  find: ["Find an entity", "查找实体"], popular: ["Whole graph", "整体图谱"], depth: ["Depth", "深度"], expand: ["Expand", "展开"], collapse: ["Collapse", "收起"], neighbourhood: ["Only its neighbourhood", "仅显示邻域"], pathFrom: ["Path from here", "从此处找路径"], noPath: ["There is no path of up to six relations.", "六步之内没有路径。"],
  colourBy: ["Colour by", "着色"], byType: ["type", "类型"], byCommunity: ["community", "社区"], community: ["Community", "社区"], zoomIn: ["Zoom in", "放大"], zoomOut: ["Zoom out", "缩小"], fit: ["Fit", "适应"], layoutOn: ["Arrange", "布局"], layoutOff: ["Stop arranging", "停止布局"], shown: ["shown", "已显示"], truncated: ["Not all is shown.", "未全部显示。"], nodes: ["entities", "个实体"], edges: ["relations", "条关系"], limit: ["At the most", "最多"],
  edit: ["Edit", "编辑"], merge: ["Merge", "合并"], split: ["Split", "拆分"], hide: ["Hide", "隐藏"], undone: ["Undone.", "已撤销。"], done: ["Done.", "完成。"], type: ["Type", "类型"], description: ["Description", "描述"], keywords: ["Keywords", "关键词"], weight: ["Weight", "权重"], newName: ["New name", "新名称"], mergeInto: ["Merge into", "合并到"], splitName: ["Name of the new entity", "新实体的名称"], splitWhich: ["Documents that mean the new one", "指新实体的文档"], relations: ["Relations", "关系"], mentionedIn: ["Mentioned in", "出现于"], aliases: ["Also called", "别名"], whyRelated: ["Why they are related", "关系依据"], hint: ["Choose an entity or a relation, or search for one.", "请选择或搜索实体、关系。"], emptyGraph: ["There is nothing to draw yet.", "尚无可绘制的内容。"], picture: ["The graph; its entities are listed beside it", "图谱；实体列于旁侧"], other: ["others", "其他"], corrections: ["Corrections", "更正记录"], taken: ["taken back", "已撤销"], exportPicture: ["Export", "导出"], degree: ["relations", "条关系"], list: ["List", "列表"], by: ["by", "操作者"], anyone: ["anyone", "未登录用户"], noHistory: ["No corrections yet.", "暂无更正。"],
  c_create_entity: ["created", "新建实体"], c_edit_entity: ["edited", "编辑实体"], c_rename_entity: ["renamed", "重命名"], c_merge_entities: ["merged", "合并"], c_split_entity: ["split", "拆分"], c_hide_entity: ["hidden", "隐藏实体"], c_delete_entity: ["hidden", "隐藏实体"], c_create_relation: ["relation created", "新建关系"], c_edit_relation: ["relation edited", "编辑关系"], c_hide_relation: ["relation hidden", "隐藏关系"], c_delete_relation: ["relation hidden", "隐藏关系"],
  display: ["Display", "显示"], hideLone: ["Leave out entities without relations", "不显示没有关系的实体"], firstSeen: ["Date of the documents", "文档日期"], from: ["From", "从"], until: ["Until", "到"], steer: ["The graph: arrows move it, + and - zoom, 0 shows all", "图谱：方向键移动，+ 和 - 缩放，0 显示全部"],
  t_person: ["person", "人物"], t_organization: ["organization", "组织"], t_location: ["location", "地点"], t_place: ["place", "地点"], t_event: ["event", "事件"], t_concept: ["concept", "概念"], t_artifact: ["artifact", "物件"], t_content: ["content", "内容"], t_method: ["method", "方法"], t_data: ["data", "数据"], t_category: ["category", "类别"], t_creature: ["creature", "生物"], t_naturalobject: ["natural object", "自然物"], t_geo: ["place", "地点"], t_technology: ["technology", "技术"], t_product: ["product", "产品"], t_equipment: ["equipment", "设备"], t_unknown: ["other kinds", "其他"], t_other: ["other kinds", "其他"],
  // overview
  entities: ["Entities", "实体"], freshness: ["Oldest waiting document", "最久等待的文档"], nothingWaits: ["nothing waits", "无等待"], queue: ["Queue", "队列"], questionsNow: ["Questions running", "进行中的提问"], questionsWaiting: ["Questions waiting", "等待中的提问"], jobs: ["Jobs", "任务"], noJobs: ["Nothing is under way.", "没有正在进行的任务。"], latency: ["Answer times by mode", "各模式回答耗时"], noQuestions: ["No question has been asked since the start.", "启动以来尚无提问。"], count: ["Count", "次数"], spend: ["Tokens spent since the start", "启动以来的词元消耗"], read: ["read", "读入"], written: ["written", "写出"], calls: ["calls", "次调用"], failures: ["failed", "失败"], purpose: ["Purpose", "用途"], for_document: ["documents", "文档"], for_query: ["questions", "提问"], for_extract: ["extraction", "抽取"], for_summary: ["summaries", "摘要"], for_keywords: ["keywords", "关键词"], for_answer: ["answers", "回答"], for_rerank: ["reranking", "重排序"], model: ["Model", "模型"], models: ["Models", "模型"], alerts: ["Alerts", "告警"], a_query_latency: ["Answers within", "回答耗时不超过"], a_rerank_latency: ["Reranking within", "重排序耗时不超过"], a_index_freshness: ["Documents wait at most", "文档等待不超过"], a_ok: ["fine", "正常"], a_firing: ["exceeded", "超出"], a_unknown: ["not known", "未知"], stores: ["Stores", "存储"], settings: ["Settings", "设置"], set_workspace: ["Default workspace", "默认工作区"], set_kv_storage: ["Documents", "文档存储"], set_graph_storage: ["Graph", "图谱存储"], set_vector_storage: ["Vectors", "向量存储"], set_max_async: ["Model calls at once", "并发模型调用"], set_max_parallel_insert: ["Documents read at once", "并行读取文档数"], set_summary_language: ["Language of summaries", "摘要语言"], set_enable_llm_cache: ["Replies are cached", "缓存模型回复"], set_enable_rerank: ["Passages are reranked", "段落重排序"], set_cosine_threshold: ["Least similarity", "最低相似度"], set_related_chunk_number: ["Passages of an entity", "每个实体的段落数"], version: ["Version", "版本"], notConfigured: ["none; works offline", "未配置；离线可用"], disk: ["On disk", "磁盘占用"], cachedReplies: ["Cached replies", "缓存的回复"], lag: ["commits behind", "次提交落后"], healthy: ["healthy", "正常"], chatModel: ["Chat model", "聊天模型"], embeddingModel: ["Embedding", "向量模型"], reranker: ["Reranker", "重排序模型"], uptime: ["All counts are since the service was started.", "所有计数均自服务启动起。"], adminOnly: ["Figures of the whole process are shown to those who may enter every workspace.", "整个进程的数据仅对可进入所有工作区的用户显示。"],
  // the interface, described
  apiTitle: ["Interface", "接口"], filterRoutes: ["Find a route", "查找接口"], body: ["Body", "请求体"], responses: ["Responses", "响应"], example: ["Example", "示例"], fields: ["Fields", "字段"], needed: ["required", "必填"], tryIt: ["Try it", "试一试"], onePerLine: ["one a line", "每行一个"], sending: ["Waiting …", "请稍候……"], shortened: ["Only the beginning is shown.", "仅显示开头部分。"], sureSend: ["Send this request? It may delete things for good.", "确定发送？此请求可能永久删除数据。"], badBody: ["The body is not valid JSON.", "请求体不是有效的 JSON。"], noCredentials: ["needs no credentials", "无需凭据"],
} satisfies Record<string, readonly [string, string]>;

export type Word = keyof typeof WORDS;

const LANGUAGE = "heliograph-language";
const systems = navigator.languages
  .map((tag) => tag.toLowerCase().split("-")[0])
  .find((tag): tag is "en" | "zh" => tag === "zh" || tag === "en") ?? "en";

const chosen = localStorage.getItem(LANGUAGE);
export const language = signal<"en" | "zh">(chosen === "zh" || chosen === "en" ? chosen : systems);

export function switchLanguage() {
  language.value = language.value === "zh" ? "en" : "zh";
  if (language.value === systems) localStorage.removeItem(LANGUAGE);
  else localStorage.setItem(LANGUAGE, language.value);
}

export const t = (word: Word): string => WORDS[word][language.value === "zh" ? 1 : 0];

/** The word of a name that the service gave, such as a status; the name itself where there is none. */
export const named = (prefix: string, name: string): string =>
  `${prefix}${name}` in WORDS ? t(`${prefix}${name}` as Word) : name.replaceAll("_", " ");

/** Who did something; whoever needed no credentials has no name. */
export const authorName = (author: string): string => (author === "anyone" ? t("anyone") : author);

/** A type of entity, in words where it is one of those that are usual. */
export const typeName = (type: string): string => {
  const word = `t_${type.toLowerCase().replace(/[\s_-]/g, "")}`;
  return word in WORDS ? t(word as Word) : type;
};

const locale = () => (language.value === "zh" ? "zh-CN" : "en");
export const number = (value: number) => value.toLocaleString(locale());
export const when = (iso: string | number) =>
  new Date(iso).toLocaleString(locale(), { dateStyle: "medium", timeStyle: "short" });
export const duration = (seconds: number) =>
  seconds < 1 ? `${Math.round(seconds * 1000)} ms` : seconds >= 120 ? `${Math.round(seconds / 60)} ${t("minutesShort")}` : `${seconds.toFixed(seconds < 10 ? 1 : 0)} ${t("secondsShort")}`;
export function bytes(count: number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${count.toFixed(count < 10 && unit ? 1 : 0)} ${units[unit]}`;
}
